//! `farwood nic`: a table or JSON lines of measured verbs of a simulated card, and the comparison with a real one.

use crate::machine::Machine;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

#[test]
fn lists_and_ranges_are_a_table() {
    let machine = Machine::new();
    let arguments = ["nic", "--bytes", "8,64", "--queue-pairs", "1..4*4", "--outstanding", "8"];
    let table = machine.ok(&[&arguments[..], &["--seconds", "0.0001"]].concat());
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("card cx5-100g ") && lines[0].len() == "card cx5-100g ".len() + 16,
        "{table}"
    );
    assert!(lines[1].contains("M verbs/s") && lines[1].contains("p99 us"), "{table}");
    assert_eq!(lines.len(), 6, "{table}");
    let lines = machine.json(&[&arguments[..], &["--seconds", "0.0001"]].concat());
    let rates: Vec<f64> = lines.iter().map(|line| line["million_per_second"].as_f64().unwrap()).collect();
    assert!(rates[1] > 3.5 * rates[0] && rates[3] > 3.5 * rates[2], "more queue pairs: {rates:?}");
    assert_eq!((&lines[2]["bytes"], &lines[3]["queue_pairs"]), (&64.into(), &4.into()));
    assert!(lines[0]["latency_us"]["p50"].as_f64().unwrap() > 1.5, "{lines:?}");
}

#[test]
fn atomics_contend_for_one_word() {
    let machine = Machine::new();
    let rate = |target: &str, memory: &str| {
        let arguments =
            ["nic", "--verb", "cas", "--queue-pairs", "32", "--outstanding", "4", "--seconds", "0.0002"];
        let json = machine.json(&[&arguments[..], &["--target", target, "--memory", memory]].concat());
        json[0]["million_per_second"].as_f64().unwrap()
    };
    assert!(rate("spread", "host") > 5.0 * rate("same", "host"));
    assert!(rate("same", "device") > 2.0 * rate("same", "host"));
}

#[test]
fn wrong_options_are_named_with_a_remedy() {
    let machine = Machine::new();
    for (arguments, words) in [
        (&["--verb", "send"][..], &["--verb", "masked-cas"][..]),
        (&["--verb", "cas", "--bytes", "16"], &["--bytes", "give 8"]),
        (&["--bytes", "9"], &["--bytes", "multiple of 8"]),
        (&["--bytes", "8..64"], &["--bytes", "8..256*2"]),
        (&["--outstanding", "0"], &["--outstanding", "give 1 to 1024"]),
        (&["--outstanding", "3", "--batch", "2"], &["--outstanding", "multiple of --batch"]),
        (&["--queue-pairs", "3", "--compute-nodes", "2"], &["--queue-pairs", "--compute-nodes"]),
        (&["--nic", "cx9"], &["--nic", "cx5-100g"]),
        (&["--seconds", "1e-9"], &["--seconds", "more virtual time"]),
        (&["--compare", "none.csv"], &["--compare", "none.csv"]),
        (&["--compare", "x.csv", "--bytes", "8"], &["--compare", "--bytes"]),
    ] {
        machine.refused(2, &[&["nic"][..], arguments].concat(), words);
    }
}

const MEASURED: &str = "\
# mlx5_0, a sample
verb,bytes,outstanding,batch,queue_pairs,compute_nodes,memory,target,metric,value
read,8,1,1,1,1,host,spread,latency_us_p50,2.0
read,8,1,1,1,1,host,spread,latency_us_p99,2.5
write,65536,16,1,1,1,host,spread,gbit_per_second,97.0
";

#[test]
fn a_file_of_measurements_is_compared_with_the_model() {
    let machine = Machine::new();
    let file = machine.file("card.csv", MEASURED);
    let lines = machine.json(&["nic", "--compare", &file]);
    assert_eq!(lines.len(), 3);
    let number = |line: usize, name: &str| lines[line][name].as_f64().unwrap();
    let expected = 100.0 * (number(0, "model") - 2.0) / 2.0;
    assert!((number(0, "error_percent") - expected).abs() < 1e-9 && expected < 0.0, "{lines:?}");
    assert!(number(2, "error_percent").abs() < 10.0, "{lines:?}");
    let table = machine.ok(&["nic", "--compare", &file]);
    assert!(table.contains("error %") && table.contains("latency_us_p99"), "{table}");
    let wrong = machine.file("wrong.csv", MEASURED.replace("2.5", "fast"));
    machine.refused(2, &["nic", "--compare", &wrong], &["--compare", "line 4", "'fast'"]);
}

/// A program that prints the output of perftest without a card.
const FAKE: &str = "#!/bin/sh
case $0 in
    *_lat) printf ' #bytes #iterations t_min t_max t_typical t_avg t_stdev 99%% 99.9%%\\n'
        size=8
        while [ $# -gt 0 ]; do [ \"$1\" = -s ] && size=$2; shift; done
        printf ' %s 10000 1.80 9.00 1.91 1.95 0.10 2.20 3.00\\n' \"$size\" ;;
    *) printf ' #bytes #iterations BW-peak BW-average MsgRate\\n'
        size=8
        while [ $# -gt 0 ]; do [ \"$1\" = -s ] && size=$2; shift; done
        printf ' %s 10000 0.00 20.5 2.50\\n' \"$size\" ;;
esac
";

#[test]
fn the_script_writes_a_file_that_can_be_compared() {
    let machine = Machine::new();
    for name in ["ib_read_bw", "ib_write_bw", "ib_atomic_bw", "ib_read_lat", "ib_atomic_lat"] {
        let file = machine.file(name, FAKE);
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/validation/measure.sh");
    let path = format!("{}:{}", machine.path().display(), std::env::var("PATH").unwrap());
    let script = |arguments: &[&str]| {
        let mut command = Command::new("bash");
        command.arg(script).args(arguments).env("PATH", &path).env("QUEUE_PAIRS", "1 2").stdin(Stdio::null());
        command.output().unwrap()
    };
    let client = script(&["client", "127.0.0.1", "mlx5_0"]);
    let csv = String::from_utf8(client.stdout).unwrap();
    assert!(client.status.success(), "{csv} {}", String::from_utf8_lossy(&client.stderr));
    assert!(csv.contains("read,8,1,1,1,1,host,spread,latency_us_p50,1.91\n"), "{csv}");
    assert!(csv.contains("read,8,16,1,2,1,host,spread,million_per_second,5.000\n"), "two processes: {csv}");
    assert!(script(&["server", "mlx5_0"]).status.success());
    assert_eq!(script(&["neither"]).status.code(), Some(2));
    let file = machine.file("card.csv", &csv);
    let compared = machine.json(&["nic", "--compare", &file, "--seconds", "0.0001"]);
    assert_eq!(compared.len(), csv.lines().filter(|line| !line.starts_with(['#', 'v'])).count());
}
