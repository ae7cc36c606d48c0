//! Messages to a new user: the value that the user typed, the reason, and a remedy that fits.

use crate::machine::Machine;
use crate::serve::Served;

#[test]
fn a_refused_url_has_one_reason() {
    let machine = Machine::new();
    for (url, words) in [
        (
            "tcp://127.0.0.1:1/i?tokenfile=x",
            "for '<URL>': there is no parameter 'tokenfile'; give one of token-file",
        ),
        (
            "tcp://127.0.0.1:1/i?device=x",
            "for '<URL>': the parameter 'device' is for pools over rdma://; omit it",
        ),
        ("tcp://127.0.0.1/i", "for '<URL>': '127.0.0.1' has no host or no port; write HOST:PORT"),
        ("shm://.x/i", "for '<URL>': '.x' cannot name a pool"),
        ("shm://p/e mails", "for '<URL>': 'e mails' cannot name an index"),
        ("sim://x/i", "for '<URL>': the simulator has pools only while `farwood bench --fabric sim`"),
        ("p/i", "for '<URL>': this is not a URL; write shm://NAME"),
    ] {
        machine.refused(2, &["get", url, "1"], &[words]);
        let ran = machine.run(&["get", url, "1"]);
        assert!(!ran.err.contains("read the URL") && !ran.err.contains("names no memory nodes"), "{ran:?}");
    }
}

#[test]
fn sizes_are_shown_as_they_were_typed() {
    let machine = Machine::new();
    let create = |options: &[&str], words: &[&str]| {
        machine.refused(2, &[&["create", "shm://q", "--memory", "16MiB"], options].concat(), words);
    };
    for (memory, shown) in
        [("1MiB", "not 1 MiB"), ("9MiB", "not 9 MiB"), ("900TiB", "not 900 TiB"), ("0", "not 0 B")]
    {
        machine.refused(2, &["create", "shm://q", "--memory", memory], &[shown]);
    }
    for nodes in ["0", "257", "100000"] {
        let words = format!("1 to 256 memory nodes, not {nodes}");
        create(&["--device-memory", "1KiB", "--nodes", nodes], &["--nodes", &words]);
    }
    create(&["--device-memory", "5GiB"], &["64 B to 4 GiB, not 5 GiB"]);
    create(&["--device-memory", "65"], &["not 65 B"]);
}

#[test]
fn the_largest_limits_are_named() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/t", "--index", "smart", "--keys", "text", "--values", "hex"]);
    let limits = "at most 1 KiB in a B-link tree and 4 KiB in a radix tree, values 16 MiB";
    machine.refused(2, &["put", "shm://p/t", &"k".repeat(5000), "00"], &["has 5000 B", "is 4 KiB", limits]);
    let big = machine.file("big", vec![0; (16 << 20) + 1]);
    machine.refused(
        2,
        &["put", "shm://p/t", "k", "--value-file", &big],
        &["has 16777217 B", "is 16 MiB", limits],
    );
}

#[test]
fn every_variant_name_is_listed() {
    let machine = Machine::with_pool();
    for (system, words) in [
        ("smart", "+read-delegation, +write-combining = smart"),
        ("sphinx", "art, +hash-table, "),
        ("sherman", "sherman, +lock-read"),
    ] {
        let url = format!("shm://p/{system}");
        machine.refused(2, &["create", &url, "--index", system, "--variant", "oak"], &["'oak'", words]);
    }
    for (system, variant) in [("smart", "+write-combining"), ("sphinx", "+hash-table"), ("sherman", "fg")] {
        machine.ok(&["create", &format!("shm://p/{system}"), "--index", system, "--variant", variant]);
    }
}

#[test]
fn an_operation_has_the_name_of_its_command() {
    let machine = Machine::with_index();
    machine.refused(
        2,
        &["drop", "tcp://127.0.0.1:1"],
        &["farwood: drop tcp://", "SIGTERM", "`farwood drop` with"],
    );
    machine.refused(
        2,
        &["create", "tcp://127.0.0.1:1"],
        &["farwood: create tcp://", "creating the first index"],
    );
    machine.refused(2, &["put", "shm://p/i", "x", "1", "--if-absent"], &["farwood: put shm://p/i"]);
    machine.refused(
        2,
        &["load", "shm://p/i", &machine.file("rows.tsv", "1\tx\n")],
        &["farwood: load shm://p/i"],
    );
    std::fs::write(machine.segment(), "short").unwrap();
    machine.refused(8, &["drop", "shm://p"], &["farwood: drop shm://p", "--force"]);
}

#[test]
fn stat_counts_the_chunks_of_indexes_only() {
    let machine = Machine::with_index();
    let node = &machine.json(&["stat", "shm://p"])[0]["nodes"][0];
    assert_eq!(
        (&node["chunks"], &node["chunks_used"]),
        (&7.into(), &1.into()),
        "64 MiB less the superblock's"
    );
    assert!(machine.ok(&["stat", "shm://p"]).contains("; 1 of 7 chunks in use, "));
    machine.ok(&["create", "shm://small/i", "--memory", "16MiB"]);
    machine.refused(
        5,
        &["create", "shm://small/j"],
        &["the pool is full: indexes have all its chunks of 8 MiB"],
    );
    assert!(machine.ok(&["stat", "shm://small"]).contains("; 1 of 1 chunk in use, "));
}

#[test]
fn a_broken_segment_does_not_refer_to_the_doctor() {
    let machine = Machine::new();
    machine.file("farwood.broken.0", "12345");
    let said = machine.ok(&["doctor"]);
    assert!(said.contains("5 B of 5 B in use; cannot be used, see below"), "{said}");
    assert!(
        said.contains("farwood drop shm://broken --force") && !said.contains("`farwood doctor`"),
        "{said}"
    );
    assert_eq!(machine.run(&["doctor", "--strict"]).code, 1);
    machine.ok(&["drop", "shm://broken", "--force"]);
    machine.ok(&["doctor", "--strict"]);
}

#[test]
fn top_fits_80_columns_and_shows_what_is_counted() {
    let machine = Machine::with_index();
    let shared = machine.ok(&["top", "shm://p", "--count", "2", "--interval", "0.05"]);
    assert!(shared.contains("node  resident  chunks\n") && !shared.contains("req/s"), "{shared}");
    let node = Served::start_at(&machine, "tcp://127.0.0.1:0", &[]);
    machine.ok(&["create", &format!("{}/i", node.url)]);
    let served = machine.ok(&["top", &node.url, "--count", "2", "--interval", "0.05"]);
    assert!(served.contains("req/s"), "{served}");
    for line in served.lines().chain(shared.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn create_warns_of_a_pool_that_is_larger_than_the_machine() {
    let machine = Machine::new();
    let ran = machine.run(&["create", "shm://big", "--memory", "3TiB"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.says(&["warning: shm://big", "may grow by"]);
    let ran = machine.run(&["create", "shm://small", "--memory", "16MiB"]);
    assert_eq!((ran.code, ran.err.lines().count()), (0, 1), "{ran:?}");
}

#[test]
fn huge_numbers_are_refused_and_stop_no_process() {
    let machine = Machine::new();
    let bench = ["bench"];
    for (options, words) in [
        (&["--seconds", "1e30"][..], "at most 604800"),
        (&["--operations", "10", "--warmup", "1e30"], "at most 604800"),
        (&["--index", "catfish", "--seconds", "1e30"], "at most a week"),
        (&["--index", "catfish", "--operations", "10", "--warmup", "inf"], "at most a week"),
        (&["--fabric", "sim", "--seconds", "1e30"], "at most 604800"),
        (&["--threads", "99999999"], "'99999999' for '--threads <COUNT>': give 1 to 65536"),
        (&["--clients", "9999999999"], "'9999999999' for '--clients <COUNT>': give 1 to 65536"),
        (&["--fabric", "sim", "--clients", "18446744073709551615"], "give 1 to 65536"),
        (&["--compute-nodes", "9999999999"], "give 1 to 1024"),
        (&["--fabric", "tcp", "--connections", "9999999999"], "give 1 to 65536"),
        (&["--index", "catfish", "--threads", "99999999"], "give 1 to 65536"),
        (&["--index", "catfish", "--keys", "999999999999999"], "give at most 1073741824"),
        (&["--index", "catfish", "--fabric", "sim", "--keys", "999999999999999"], "at most 1073741824"),
        (&["--index", "smart", "--cache-bytes", "18446744073709551615"], "give at most 1TiB"),
    ] {
        machine.refused(2, &[&bench[..], options].concat(), &[words]);
    }
    let most = usize::MAX.to_string();
    for (option, words) in [
        ("--threads", "give 1 to 1024"),
        ("--connections", "1 to 1048576 connections"),
        ("--spin", "poll for at most 1s"),
    ] {
        machine.refused(2, &["serve", "--listen", "tcp://127.0.0.1:0", option, &most], &[words]);
    }
    machine.refused(2, &["reproduce", "nic", "--jobs", &most], &["--jobs", "give 1 to 1024"]);
    machine.refused(2, &["demo", "--processes", &most], &["--processes", "give 2 to 64"]);
    machine.refused(
        2,
        &["search", "shm://p/s", "--at", "1,1", "--nearest", "-1"],
        &["give an integer from 1"],
    );
    machine.refused(
        2,
        &["search", "shm://p/s", "--at", "1,1", "--nearest", "x"],
        &["not a number; give an integer"],
    );
    let serve = ["serve", "shm://p", "--spatial", "s", "--heartbeat"];
    for heartbeat in ["0", "10001", "-1"] {
        machine.refused(2, &[&serve[..], &[heartbeat]].concat(), &["--heartbeat", "give 1 to 10000"]);
    }
    let bench = ["bench", "--index", "catfish", "--seconds", "0.01", "--keys", "0"];
    machine.refused(2, &bench, &["--keys: 0 rectangles; give at least 1"]);
    machine.refused(2, &["top", "shm://p", "--count", "0"], &["--count 0", "at least 1"]);
    machine.refused(2, &["top", "shm://p", "--interval", "1e300"], &["0.01 to 86400"]);
}

#[test]
fn line_feeds_in_names_of_files_are_escaped() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/i"]);
    let bad = machine.file("b\nad.csv", "x\n");
    let config = machine.file("b\nad.toml", "x = 1\n");
    for arguments in [
        &["load", "shm://p/i", "no\nfile"][..],
        &["load", "shm://p/i", &bad],
        &["load", "shm://p/i", &bad, "--skip-bad"],
        &["put", "shm://p/i", "1", "--value-file", "no\nfile"],
        &["bench", "--key-file", "no\nfile", "--keys", "10"],
        &["--config", &config, "stat", "shm://p"],
    ] {
        let ran = machine.run(arguments);
        assert!(ran.code != 0 && ran.err.contains("\\n"), "{arguments:?}: {ran:?}");
        assert!(!ran.err.contains("o\nfile") && !ran.err.contains("b\nad"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn control_characters_of_the_command_line_are_escaped() {
    let machine = Machine::new();
    let config = machine.file("bad.toml", "[bench]\nclients = \"1\\u001b[2J\"\n");
    for arguments in [
        &["get", "shm://p/x\x1b[31m", "1"][..],
        &["get", "shm://p\x1b[31m\r/x", "1"],
        &["get", "shm://p/x", "1", "--no-such\x1b[31m"],
        &["drop", "shm://p/x", "\x1b[31m\u{9b}x"],
        &["g\x1b[31m"],
        &["help", "g\x1b[31m"],
        &["create", "shm://p", "--memory", "1\x1b[31m"],
        &["create", "shm://p/x", "--index", "smart\x1b[31m\x07"],
        &["create", "shm://p/x", "--keys=\x1b[31m"],
        &["bench", "--operations", "\x1b]0;title\x07"],
        &["bench", "--workload", "\x1b[31m"],
        &["reproduce", "\x1b[31m"],
        &["search", "shm://p/x", "--at", "1,\x1b[31m"],
        &["get", "pool://\x1b[31m/x", "1"],
        &["bench", "--config", &config],
    ] {
        let ran = machine.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        let is_raw = |character: char| character.is_control() && character != '\n';
        assert!(!ran.err.contains(is_raw), "{arguments:?}: {ran:?}");
        assert!(ran.err.contains("\\u{1b}"), "{arguments:?}: {ran:?}");
    }
}

#[test]
fn serve_names_the_wrong_part_of_an_address() {
    let machine = Machine::new();
    for (listen, why) in [
        ("tcp://127.0.0.1", "'127.0.0.1' has no host or no port"),
        ("tcp://127.0.0.1:99999", "'99999' is not a port number"),
        ("tcp://::1:7470", "is an IPv6 address: put brackets around it"),
        ("tcp://no-such-host.invalid:1", "the host 'no-such-host.invalid' cannot be found"),
    ] {
        let refusal = format!("serve: --listen {listen}: ");
        machine.refused(2, &["serve", "--listen", listen], &[&refusal, why, "write tcp://HOST:PORT"]);
    }
}

#[test]
fn serve_names_the_missing_option_before_an_address() {
    let machine = Machine::new();
    let words = ["--listen is missing", "`farwood serve --listen tcp://127.0.0.1:0`"];
    machine.refused(2, &["serve", "tcp://127.0.0.1:0"], &words);
}
