//! Spatial indexes on the command line: rectangles from files of all formats, searches, and input that is not a
//! rectangle.

use crate::flatgeobuf::flatgeobuf;
use crate::machine::{Machine, free_port, lines};
use crate::serve;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

pub(crate) fn with_spatial() -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine
}

fn loaded(rows: &str) -> Machine {
    filled(with_spatial(), rows)
}

fn loaded_degrees(rows: &str) -> Machine {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish", "--crs", "degrees"]);
    filled(machine, rows)
}

fn filled(machine: Machine, rows: &str) -> Machine {
    machine.ok(&["load", "shm://p/s", &machine.file("rows.csv", rows)]);
    machine
}

/// The lines that a search prints, in order.
pub(crate) fn search(machine: &Machine, arguments: &[&str]) -> Vec<String> {
    let out = machine.ok(&[&["search", "shm://p/s"], arguments].concat());
    let mut rows: Vec<_> = out.lines().map(str::to_owned).collect();
    rows.sort();
    rows
}

#[test]
fn rectangles_are_added_in_batches_to_an_index_that_is_not_empty() {
    const ROWS: usize = 2500;
    let machine = loaded("-1,-1,-1,-1,9000\n");
    let rows: Vec<_> = (0..ROWS).map(|id| format!("{id},0,{id},1,{id}")).collect();
    machine.run(&["load", "shm://p/s", &machine.file("more.csv", rows.join("\n"))]).says(&["in batches"]);
    assert_eq!(search(&machine, &["--bbox", "0,0,10000,1"]).len(), ROWS);
    assert_eq!(search(&machine, &["--bbox", "-2,-2,2500,1"]).len(), ROWS + 1);
}

#[test]
fn rectangles_from_csv_are_found_by_every_kind_of_search() {
    let machine = loaded("0,0,2,2,1\n1,1,3,3,77\n10,10,10,10,3\n");
    assert_eq!(search(&machine, &["--bbox", "2.5,2.5,4,4"]), ["77 1,1,3,3"]);
    assert_eq!(search(&machine, &["--bbox", "0,0,4,4"]), ["1 0,0,2,2", "77 1,1,3,3"]);
    assert_eq!(search(&machine, &["--bbox", "0,0,2.5,2.5", "--within"]), ["1 0,0,2,2"]);
    assert_eq!(search(&machine, &["--at", "1.5,1.5", "--contains", "--count"]), ["2"]);
    assert_eq!(
        machine.ok(&["search", "shm://p/s", "--at", "9,9", "--nearest", "2"]),
        "3 10,10,10,10\n77 1,1,3,3\n"
    );
    machine.refused(1, &["search", "shm://p/s", "--bbox", "20,20,30,30"], &["no rectangle was found"]);
    let found = machine.json(&["search", "shm://p/s", "--bbox", "9,9,11,11"]);
    assert_eq!(found[0]["type"], "FeatureCollection");
    assert_eq!(found[0]["features"][0]["geometry"], json!({ "type": "Point", "coordinates": [10.0, 10.0] }));
    assert!(machine.ok(&["check", "shm://p/s"]).contains("rectangles"));
}

#[test]
fn boxes_across_the_antimeridian_are_found_on_both_sides() {
    let machine = loaded_degrees("179,-17,180,-16,1\n-180,-17,-179,-16,2\n0,0,1,1,3\n");
    assert_eq!(search(&machine, &["--bbox", "178,-20,-178,-10", "--count"]), ["2"]);
    assert_eq!(search(&machine, &["--bbox", "178,-20,-178,-10"]).len(), 2);
    // The centre is on the eastern side, near the second.
    assert_eq!(
        search(&machine, &["--bbox", "179.5,-20,-178,-10", "--nearest", "1"]),
        ["2 -180,-17,-179,-16"]
    );
    let island = json!({ "type": "Feature", "id": 7, "bbox": [177.0, -20.0, -178.0, -12.0], "geometry":
        { "type": "Point", "coordinates": [179.0, -17.0] } });
    machine.ok(&["load", "shm://p/s", &machine.file("fiji.geojson", island.to_string())]);
    assert_eq!(search(&machine, &["--at", "-179,-13"]), ["7 -180,-20,-178,-12"]);
    assert_eq!(search(&machine, &["--at", "178,-13"]), ["7 177,-20,180,-12"]);
    let row = machine.file("across.csv", "178,-20,-178,-10\n");
    machine.refused(
        2,
        &["load", "shm://p/s", &row],
        &["across.csv:1", "antimeridian", "crosses the antimeridian in two"],
    );
}

#[test]
fn a_rectangle_contains_a_window_across_the_antimeridian_if_it_contains_both_parts() {
    let machine =
        loaded_degrees("170,0,180,5,1\n170,0,180,5,2\n-180,0,-170,5,2\n-180,0,180,5,3\n-180,0,-170,5,4\n");
    let found = search(&machine, &["--bbox", "175,1,-175,2", "--contains"]);
    assert_eq!(found, ["2 -180,0,-170,5", "2 170,0,180,5", "3 -180,0,180,5"]);
    assert_eq!(search(&machine, &["--bbox", "175,1,-175,2", "--count"]), ["5"]);
}

#[test]
fn rows_that_are_not_rectangles_are_refused_with_their_position_or_skipped() {
    let machine = with_spatial();
    for (row, words) in [
        ("nan,2,3,4", "finite"),
        ("1,2,inf,4", "finite"),
        ("1,-inf,2,4", "finite"),
        ("1e400,4,2,3", "'1e400' is not a finite number"),
        ("1,2,3,1e-400", "column 4: '1e-400' is not 0, and closer to 0 than any number of 64 bits"),
        ("1,2,3\r,4", "carriage return"),
        ("1,4,2,3", "y1 4 is greater than y2 3"),
        ("3,2,1,4", "x1 3 is greater than x2 1; give the smaller x first"),
        ("1", "1 column,"),
        ("1,x,3,4", "'x' is not a number"),
        ("1,2,3,4,5", "5 columns"),
        ("1,2", "2 columns"),
        ("", "no such row"),
    ] {
        let file = machine.file("rows.csv", lines(["0,0,1,1", row]));
        if row.is_empty() {
            machine.ok(&["load", "shm://p/s", &file]);
            continue;
        }
        machine.refused(2, &["load", "shm://p/s", &file], &["rows.csv:2", words]);
        assert_eq!(machine.run(&["search", "shm://p/s", "--at", "0,0"]).code, 1, "nothing of it is loaded");
    }
    let bad = machine.file("bad.csv", "nan,1,2,2\n5,5,6,6\n");
    let report = machine.json(&["load", "shm://p/s", &bad, "--skip-bad"]);
    assert_eq!((&report[0]["loaded"], &report[0]["skipped"]), (&json!(1), &json!(1)));
    for window in ["0,2,1,1", "200,0,100,1", "5,3,-5,1"] {
        machine.refused(
            2,
            &["search", "shm://p/s", "--bbox", window],
            &["search shm://p/s", "is not a rectangle"],
        );
    }
    for window in ["nan,0,1,1", "0,0,inf,1", "-inf,0,1,1", "0,0,1,1e400"] {
        machine.refused(2, &["search", "shm://p/s", "--bbox", window], &["--bbox", "is not a finite number"]);
    }
    machine.refused(
        2,
        &["search", "shm://p/s", "--at", "1e400,1"],
        &["--at", "'1e400' is not a finite number"],
    );
    machine.refused(2, &["search", "shm://p/s", "--at", "-1e-400,1"], &["--at", "'-1e-400' is not 0"]);
    machine.refused(2, &["search", "shm://p/s", "--bbox", "1,2,3"], &["4 numbers"]);
}

#[test]
fn stat_describes_a_spatial_index() {
    let machine = loaded("0,0,2,2\n1,1,3,3\n");
    let text = machine.ok(&["stat", "shm://p/s"]);
    assert!(
        text.contains("catfish") && text.contains("42 entries") && !text.contains("rectangles   "),
        "{text}"
    );
    let counted = machine.ok(&["stat", "shm://p/s", "--count"]);
    assert!(counted.contains("rectangles   2\n") && counted.contains("served       no"), "{counted}");
    let stat = &machine.json(&["stat", "shm://p/s", "--count"])[0];
    let told =
        ["system", "entries", "served", "node_bytes", "node_entries", "memory_node"].map(|key| &stat[key]);
    assert_eq!(told, [&json!("catfish"), &json!(2), &json!(false), &json!(1984), &json!(42), &json!(0)]);
    assert_eq!(machine.json(&["stat", "shm://p/s"])[0]["entries"], Value::Null);
    let pool = machine.json(&["stat", "shm://p"]);
    assert_eq!(
        (&pool[0]["indexes"][0]["name"], &pool[0]["indexes"][0]["system"]),
        (&json!("s"), &json!("catfish"))
    );
    assert!(machine.ok(&["stat", "shm://p"]).contains("rectangles, catfish"));
}

/// Runs a server of the index until the test ends.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How often the threads of a process have gone to sleep.
fn sleeps(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
        let count =
            text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse().ok());
        count.unwrap_or(0_u64)
    };
    tasks.map(status).sum()
}

#[test]
fn an_idle_server_rarely_wakes_up() {
    let machine = loaded("0,0,2,2\n");
    let mut command = machine.command(&["serve", "shm://p", "--spatial", "s"]);
    let mut server = Served(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    // It polls for messages often during the first second.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let before = sleeps(server.0.id());
    std::thread::sleep(std::time::Duration::from_secs(2));
    let woken = sleeps(server.0.id()) - before;
    assert!(woken < 2_500, "it woke up {woken} times in 2 s; each pause should last 2 ms");
    machine.ok(&["put", "shm://p/s", "7", "5,5,6,6"]);
}

#[test]
fn a_stopped_server_is_distinguished_from_none() {
    let machine = loaded("0,0,2,2\n");
    let mut command = machine.command(&["serve", "shm://p", "--spatial", "s"]);
    let mut server = Served(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let signal = |name: &str| {
        let sent = Command::new("kill").args([name, &server.0.id().to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let begun = std::time::Instant::now();
    let words =
        ["put shm://p/s", "did not accept a connection", "nothing was changed", "`farwood stat shm://p`"];
    machine.refused(9, &["put", "shm://p/s", "7", "5,5,6,6"], &words);
    assert!(begun.elapsed() < std::time::Duration::from_secs(30), "{:?}", begun.elapsed());
    signal("-CONT");
    machine.ok(&["put", "shm://p/s", "7", "5,5,6,6"]);
    assert_eq!(search(&machine, &["--bbox", "0,0,9,9", "--count"]), ["2"]);
}

#[test]
fn without_a_server_processes_change_an_index_one_after_the_other() {
    let machine = with_spatial();
    let row = machine.file("row.csv", "1,1,2,2\n");
    let load = || machine.command(&["load", "shm://p/s", &row]).stdout(Stdio::null()).spawn().unwrap();
    for _ in 0..4 {
        let mut loads: Vec<_> = (0..6).map(|_| load()).collect();
        assert!(loads.iter_mut().all(|load| load.wait().unwrap().success()));
    }
    assert_eq!(search(&machine, &["--bbox", "0,0,9,9", "--count"]), ["24"]);
}

#[test]
fn over_tcp_an_empty_index_is_loaded_in_bulk() {
    let machine = Machine::new();
    let arguments = ["serve", "--listen", "tcp://127.0.0.1:0", "--memory", "64MiB", "--spatial", "s"];
    let mut server = Served(machine.command(&arguments).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_whitespace().find(|word| word.starts_with("tcp://")).unwrap().trim_end_matches(':');
    let index = format!("{url}/s");
    // An ordered index cannot be served, but the server continues to wait for a spatial one.
    machine.ok(&["create", &index]);
    std::thread::sleep(std::time::Duration::from_millis(200));
    machine.ok(&["drop", &index]);
    machine.ok(&["create", &index, "--index", "catfish"]);
    // The server may not have found the index yet.
    let report = machine.json(&["load", &index, &machine.file("two.csv", "0,0,2,2\n5,5,6,6\n")]);
    assert_eq!((&report[0]["loaded"], &report[0]["bulk"]), (&json!(2), &json!(true)));
    let report = machine.json(&["load", &index, &machine.file("one.csv", "7,7,8,8\n")]);
    assert_eq!((&report[0]["loaded"], &report[0]["bulk"]), (&json!(1), &json!(false)));
    assert_eq!(machine.ok(&["search", &index, "--bbox", "0,0,9,9", "--count"]), "3\n");
}

#[test]
fn coordinates_of_geojson_that_become_0_are_refused() {
    let machine = with_spatial();
    let feature = |x: &str, note: &str| {
        format!(
            "{{\"type\":\"Feature\",\"geometry\":{{\"type\":\"Point\",\"coordinates\":[{x},2]}},\
             \"properties\":{{\"note\":{note}}}}}"
        )
    };
    let (good, bad) = (feature("1", "1e-400"), feature("1e-400", "0"));
    let whole = format!("{{\"type\":\"FeatureCollection\",\"features\":[{good},{bad}]}}");
    let files = [
        (machine.file("a.geojson", whole), "feature 2"),
        (machine.file("b.geojsonl", lines([&good, &bad])), "b.geojsonl:2"),
    ];
    for (file, place) in &files {
        let words = [place, "1e-400, which is not 0, and closer to 0 than any number of 64 bits"];
        machine.refused(2, &["load", "shm://p/s", file], &words);
        let report = machine.json(&["load", "shm://p/s", file, "--skip-bad"]);
        assert_eq!((&report[0]["loaded"], &report[0]["skipped"]), (&json!(1), &json!(1)), "{file}");
    }
}

#[test]
fn single_rectangles_are_added_and_removed() {
    let machine = with_spatial();
    machine.ok(&["put", "shm://p/s", "7", "0,0,2,2"]);
    machine.ok(&["put", "shm://p/s", "8", "-5,-6"]);
    let everywhere = ["--bbox", "-180,-90,180,90"];
    assert_eq!(search(&machine, &everywhere), ["7 0,0,2,2", "8 -5,-6,-5,-6"]);
    machine.refused(1, &["del", "shm://p/s", "7", "0,0,2,3"], &["there is no rectangle 7 at 0,0,2,3"]);
    machine.ok(&["del", "shm://p/s", "7", "0,0,2,2"]);
    assert_eq!(search(&machine, &everywhere), ["8 -5,-6,-5,-6"]);
    for (arguments, words) in [
        (&["put", "shm://p/s", "7", "1,2,3"][..], "neither x,y nor x1,y1,x2,y2"),
        (&["put", "shm://p/s", "seven", "1,2"], "the number of the rectangle: 'seven' is not a number"),
        (&["put", "shm://p/s", "007", "1,2"], "'007' is not a number from 0 to 2^64 - 1 without sign"),
        (&["del", "shm://p/s", "+7", "1,2"], "'+7' is not a number from 0 to 2^64 - 1 without sign"),
        (&["put", "shm://p/s", "7", "1,2,3,1e400"], "'1e400' is not a finite number"),
        (&["put", "shm://p/s", "7", "1,1e-400"], "'1e-400' is not 0, and closer to 0"),
        (&["put", "shm://p/s", "7", "1,NaN"], "put shm://p/s"),
        (&["put", "shm://p/s", "9", "170,0,-170,1"], "(170, 0) to (-170, 1) is not a rectangle"),
        (&["search", "shm://p/s", "--bbox", "9,9,8,8"], "(9, 9) to (8, 8) is not a rectangle"),
        (&["search", "shm://p/s", "--at", "1,1", "--nearest", "0"], "--nearest"),
        (&["load", "shm://p/s", "no.csv", "--value", "3"], "--value applies to keys"),
        (&["put", "shm://p/s", "7", "1,2", "--if-absent"], "--if-absent applies to keys"),
        (&["del", "shm://p/s", "7"], "its edges"),
        (&["get", "shm://p/s", "7"], "`farwood search`"),
        (&["scan", "shm://p/s"], "`farwood search`"),
    ] {
        machine.refused(2, arguments, &[words]);
    }
}

#[test]
fn a_search_by_message_waits_for_a_server_that_has_just_found_the_index() {
    let machine = Machine::new();
    let node = serve::Served::start_at(&machine, "tcp://127.0.0.1:0", &["--spatial", "s"]);
    let index = format!("{}/s", node.url);
    machine.ok(&["create", &index, "--index", "catfish"]);
    let by_message = format!("{index}?search=message");
    machine.refused(1, &["search", &by_message, "--at", "1,1"], &["no rectangle was found"]);
    let words = ["the memory node serves this index", "with --file and without --spatial s", "`farwood del`"];
    machine.refused(9, &["drop", &index], &words);
    let said = machine.run(&["drop", &index]).err;
    assert!(!said.contains("end that client first"), "{said}");
}

#[test]
fn a_server_waits_for_a_client_that_changes_the_index_itself() {
    let machine = loaded("0,0,1,1,1\n");
    let rows = machine.file("more.csv", lines((0..30_000).map(|id| format!("{id},0,{id},1,{id}"))));
    let mut load = machine.command(&["load", "shm://p/s", &rows]).stderr(Stdio::null()).spawn().unwrap();
    let mut server = machine.command(&["serve", "shm://p", "--spatial", "s"]);
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let loaded = load.wait().unwrap();
    server.kill().unwrap();
    let output = server.wait_with_output().unwrap();
    assert!(line.contains("serving"), "{line:?} {output:?}");
    assert!(loaded.success(), "{loaded}");
}

#[test]
fn an_index_on_another_memory_node_is_not_served_and_the_memory_node_continues() {
    let machine = Machine::new();
    let ports = [free_port(), free_port()];
    let pool = format!("tcp://127.0.0.1:{},127.0.0.1:{}", ports[0], ports[1]);
    let [first, second] = ports.map(|port| format!("tcp://127.0.0.1:{port}"));
    let _first = serve::Served::start_at(&machine, &first, &[]);
    let mut second = serve::Served::start_at(&machine, &second, &[&pool, "--spatial", "s"]);
    machine.ok(&["create", &format!("{pool}/s"), "--index", "catfish"]);
    let why = second.hear("no longer served");
    assert!(why.contains("memory node 0 of the pool") && why.ends_with("the memory node continues"), "{why}");
    machine.ok(&["stat", &format!("{pool}/s"), "--count"]);
    let (status, words) = second.stop();
    assert_eq!(status.code(), Some(2), "{words}");
    assert!(words.contains("stopped after"), "its memory is closed cleanly nevertheless: {words}");
}

#[test]
fn concurrent_loads_over_tcp_lose_no_rectangle() {
    let machine = Machine::new();
    let rows = machine.file("rows.csv", lines((0..2000).map(|number| format!("{number},1"))));
    for _ in 0..4 {
        let served = serve::Served::start_at(&machine, "tcp://127.0.0.1:0", &["--spatial", "s"]);
        let index = format!("{}/s", served.url);
        machine.ok(&["create", &index, "--index", "catfish"]);
        let load = || machine.command(&["load", &index, &rows]).stdout(Stdio::null()).spawn().unwrap();
        let mut loads: Vec<_> = (0..3).map(|_| load()).collect();
        assert!(loads.iter_mut().all(|load| load.wait().unwrap().success()));
        assert_eq!(machine.ok(&["search", &index, "--bbox", "0,0,3000,2", "--count"]), "6000\n");
    }
}

#[test]
fn a_server_refuses_options_without_effect() {
    let machine = with_spatial();
    let memory = ["serve", "shm://p", "--spatial", "s", "--memory", "1GiB"];
    machine.refused(2, &memory, &["--memory applies to memory nodes"]);
    let polling = ["serve", "--listen", "tcp://127.0.0.1:0", "--spatial", "s", "--polling"];
    machine.refused(2, &polling, &["--polling applies to shared memory only"]);
    let other = ["serve", "shm://p/other", "--spatial", "s"];
    machine.refused(2, &other, &["names the index 'other', and --spatial names 's'"]);
}

/// Access to a pool in shared memory depends on the permissions of its files. Its request socket must not bypass them.
#[test]
fn a_socket_beside_shared_memory_requires_a_token() {
    let machine = with_spatial();
    let serve = ["serve", "shm://p", "--spatial", "s"];
    let requests = [&serve[..], &["--requests"]].concat();
    machine.refused(2, &requests, &["every user of this machine", "--token-file", "--insecure"]);
    machine.refused(2, &[&serve[..], &["--insecure"]].concat(), &["--insecure", "--requests"]);
    let token = machine.file("token", "a-token-of-24-characters\n");
    for options in [&["--token-file", &token][..], &["--insecure"]] {
        let mut command = machine.command(&[&requests[..], options].concat());
        let mut server = Served(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "shm://p/s: serving\n", "{options:?}");
        let pid = server.0.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
        line.clear();
        BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("read the files of the tokens"), "{line}");
        assert!(server.0.try_wait().unwrap().is_none(), "it continues");
    }
}

/// logind removes the files of a pool in this way. A server that continued would serve a pool that no client can find.
#[test]
fn a_server_stops_when_its_pool_is_removed() {
    for polling in [&["--polling"][..], &[]] {
        let machine = Machine::with_pool();
        machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
        let mut command = machine.command(&[&["serve", "shm://p", "--spatial", "s"], polling].concat());
        let server = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut server = Served(server);
        let mut line = String::new();
        BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        machine.ok(&["drop", "shm://p", "--force"]);
        machine.ok(&["create", "shm://p/s", "--index", "catfish", "--memory", "32MiB"]);
        let mut error = String::new();
        server.0.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        assert_eq!(server.0.wait().unwrap().code(), Some(8), "{error}");
        for words in ["pool 'p' was removed while", "open the pool again", "RemoveIPC"] {
            assert!(error.contains(words), "{words:?} is missing in: {error}");
        }
        machine.ok(&["load", "shm://p/s", &machine.file("one.csv", "1,2,3,4,5\n")]);
    }
}

#[test]
fn nodes_of_a_spatial_index_have_the_chosen_size() {
    let machine = Machine::with_pool();
    for (bytes, node_bytes, entries) in [("384", 384, 7), ("1000", 704, 14), ("20544", 20_544, 448)] {
        let url = format!("shm://p/of-{bytes}");
        machine.ok(&["create", &url, "--index", "catfish", "--node-bytes", bytes]);
        let stat = &machine.json(&["stat", &url])[0];
        assert_eq!((&stat["node_bytes"], &stat["node_entries"]), (&json!(node_bytes), &json!(entries)));
        machine.ok(&["load", &url, &machine.file("rows.csv", "0,0,2,2,1\n1,1,3,3,77\n")]);
        machine.ok(&["check", &url]);
    }
    for bytes in ["383", "20545", "1GiB"] {
        let create = ["create", "shm://p/x", "--index", "catfish", "--node-bytes", bytes];
        machine.refused(2, &create, &["give 384 to 20544"]);
    }
}

#[test]
fn a_column_is_not_used_for_two_coordinates() {
    let machine = with_spatial();
    let load = ["load", "shm://p/s", &machine.file("rows.csv", "1,2,3\n"), "--columns", "1,1"];
    machine.refused(2, &load, &["--columns names column 1 twice"]);
}

#[test]
fn parameters_of_searches_are_refused_where_they_have_no_effect() {
    let machine = with_spatial();
    machine.ok(&["create", "shm://p/keys"]);
    for (url, words) in [
        ("shm://p/keys?search=reads", "is for spatial indexes"),
        ("shm://p/s?search=maybe", "give auto, message or reads"),
        ("shm://p?window=2", "add /INDEX"),
    ] {
        machine.refused(2, &["get", url, "a"], &[words]);
    }
    let url = "shm://p/keys?threshold=0.5";
    let rows = machine.file("rows.csv", "1,2\n");
    for arguments in [
        &["stat", url][..],
        &["stat", url, "--count"],
        &["check", url],
        &["check", url, "--scrub"],
        &["put", url, "1", "2"],
        &["del", url, "1"],
        &["scan", url],
        &["load", url, &rows],
        &["drop", url],
        &["create", "shm://p/new?threshold=0.5"],
        &["create", "shm://p/new?threshold=0.5", "--index", "smart"],
    ] {
        machine.refused(2, arguments, &["this index holds keys, and 'threshold=0.5' is for spatial indexes"]);
    }
    machine.refused(3, &["stat", "shm://p/new"], &["no index"]);
    let served = ["serve", "shm://p/s?search=message", "--spatial", "s"];
    machine.refused(2, &served, &["'search=message' is for clients"]);
    machine.ok(&["stat", "shm://p/s?search=message"]);
}

#[test]
fn a_search_of_keys_names_the_commands_for_keys() {
    let machine = Machine::with_index();
    machine.refused(2, &["search", "shm://p/i", "--at", "1,2"], &["holds keys", "`farwood scan`"]);
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    machine.refused(2, &["scan", "shm://p/s"], &["holds rectangles", "`farwood search`"]);
}

#[test]
fn the_nearest_rectangle_is_found_at_every_scale() {
    for (rows, nearest) in [
        ("1e300,0,1\n1e200,0,2\n1e160,0,3\n", "3 1e160,0"),
        ("2e-170,0,1\n1e-170,0,2\n", "2 "),
        ("1e308,0,1\n0,-1.7e308,2\n-1e307,0,3\n", "3 "),
        ("3,0,1\n0,2,2\n", "2 0,2,0,2"),
    ] {
        let machine = Machine::with_pool();
        machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
        machine.ok(&["load", "shm://p/s", &machine.file("far.csv", rows)]);
        let found = search(&machine, &["--at", "0,0", "--nearest", "1"]);
        let number = nearest.split(' ').next().unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(&format!("{number} ")), "{rows}: {found:?}");
    }
}

#[test]
fn a_country_that_is_cut_at_the_antimeridian_is_near_it_only() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    let rings = "[[[[180,-17],[180,-16],[177,-16],[177,-17],[180,-17]]],\
                 [[[-178,-17],[-178,-16],[-180,-16],[-180,-17],[-178,-17]]]]";
    let fiji = format!(
        "{{\"type\":\"Feature\",\"id\":242,\"properties\":{{}},\"geometry\":\
         {{\"type\":\"MultiPolygon\",\"coordinates\":{rings}}}}}"
    );
    machine.ok(&["load", "shm://p/s", &machine.file("fiji.geojson", fiji)]);
    assert_eq!(
        machine.run(&["search", "shm://p/s", "--bbox", "0,-18,1,-15"]).code,
        1,
        "it is not at Greenwich"
    );
    let both = ["242 -180,-17,-178,-16", "242 177,-17,180,-16"];
    assert_eq!(search(&machine, &["--bbox", "-180,-18,180,-15", "--within"]), both);
}

#[test]
fn ends_of_segments_are_corners() {
    let machine = Machine::with_pool();
    machine.ok(&["create", "shm://p/s", "--index", "catfish"]);
    let coast = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/coastlines.csv");
    machine.refused(2, &["load", "shm://p/s", coast], &[":1:", "give --corners", "no rectangle is loaded"]);
    let loaded = &machine.json(&["load", "shm://p/s", coast, "--corners"])[0];
    assert_eq!((&loaded["loaded"], &loaded["skipped"]), (&4993.into(), &0.into()));
    let rows = std::fs::read_to_string(coast).unwrap();
    let first = rows.lines().next().unwrap();
    assert_eq!(first, "-59.57,-80.04,-59.87,-80.55");
    assert_eq!(search(&machine, &["--at", "-59.7,-80.1"]), ["1 -59.87,-80.55,-59.57,-80.04"]);
    machine.ok(&["create", "shm://p/i"]);
    machine.refused(2, &["load", "shm://p/i", coast, "--corners"], &["--corners applies to spatial indexes"]);
    let geojson = machine.file("a.geojson", "{}");
    machine.refused(2, &["load", "shm://p/s", &geojson, "--corners"], &["--corners applies to TSV and CSV"]);
}

#[test]
fn empty_files_load_no_rectangle_and_searches_of_an_empty_index_find_none() {
    let machine = with_spatial();
    let empty = json!({ "type": "FeatureCollection", "features": [] }).to_string();
    for (name, contents) in [("none.csv", String::new()), ("none.geojson", empty)] {
        let report = machine.json(&["load", "shm://p/s", &machine.file(name, contents)]);
        assert_eq!((&report[0]["loaded"], &report[0]["skipped"]), (&json!(0), &json!(0)), "{name}");
    }
    let none = machine.file("none.fgb", flatgeobuf(&[]));
    assert_eq!(machine.json(&["load", "shm://p/s", &none])[0]["loaded"], 0);
    machine.refused(1, &["search", "shm://p/s", "--bbox", "-180,-90,180,90"], &[]);
    machine.refused(1, &["search", "shm://p/s", "--at", "0,0", "--nearest", "5"], &[]);
    assert_eq!(machine.run(&["search", "shm://p/s", "--at", "0,0", "--count"]).out, "0\n");
    assert!(machine.ok(&["check", "shm://p/s"]).contains("rectangles"));
    let bad = machine.file("all-bad.csv", "x,y\n");
    assert_eq!(machine.run(&["load", "shm://p/s", &bad, "--skip-bad"]).code, 1);
}

#[test]
fn loads_into_a_served_index_are_sent_to_its_server() {
    let machine = loaded("0,0,2,2\n");
    let mut command = machine.command(&["serve", "shm://p", "--spatial", "s"]);
    let mut server = Served(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "shm://p/s: serving\n");
    let more = machine.file("more.fgb", flatgeobuf(&[&[[5.0, 5.0], [6.0, 6.0]]]));
    let report = machine.json(&["load", "shm://p/s", &more]);
    assert_eq!((&report[0]["loaded"], &report[0]["bulk"]), (&json!(1), &json!(false)));
    assert_eq!(search(&machine, &["--bbox", "0,0,9,9", "--count"]), ["2"]);
    let stat = &machine.json(&["stat", "shm://p/s", "--count"])[0];
    assert!(stat["served"] == true && stat["server"]["utilisation"].as_f64() < Some(1.1), "{stat}");
    let by_message = ["search", "shm://p/s?search=message&window=16", "--bbox", "0,0,9,9", "--count"];
    assert_eq!(machine.ok(&by_message), "2\n");
    // The server publishes its statistics once in an interval.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let top = &machine.json(&["top", "shm://p", "--count", "1", "--interval", "0.01"])[0];
    assert_eq!(
        (&top["servers"][0]["index"], &top["servers"][0]["lookups_by_message"]),
        (&json!("s"), &json!(1))
    );
    assert!(machine.ok(&["stat", "shm://p/s"]).contains("1 lookup by message, 0 by READs (0 %)"));
    drop(server);
    machine.refused(9, &by_message, &["no server"]);
    assert_eq!(search(&machine, &["--bbox", "0,0,9,9", "--count"]), ["2"], "searches need no server");
}
