//! Paths and macros that the code of a crate must not use. Tests may use them.

use super::paths::{Path, paths};
use super::rust::Rust;
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "forbidden-paths",
    requires: "fabric, geometry, index and sim use no clock, thread, file, socket or external randomness; libraries do \
               not print",
    check,
};

/// Paths and macros that some crates must not use.
struct Ban {
    crates: &'static [&'static str],
    /// The forbidden paths, including everything inside them.
    paths: &'static [&'static str],
    macros: &'static [&'static str],
    remedy: &'static str,
}

const PURE: &[&str] = &["fabric", "geometry", "index", "sim"];

const BANS: &[Ban] = &[
    Ban {
        crates: PURE,
        paths: &["std::time::Instant", "std::time::SystemTime"],
        macros: &[],
        remedy: "use the fabric's `now` and `sleep`",
    },
    Ban {
        crates: PURE,
        paths: &["std::thread"],
        macros: &["thread_local"],
        remedy: "leave threads to the caller",
    },
    Ban {
        crates: &["fabric", "geometry", "index"],
        paths: &["rand", "getrandom", "fastrand"],
        macros: &[],
        remedy: "derive it from a seed that the caller passes",
    },
    Ban {
        crates: &["sim"],
        paths: &[
            "rand::rng",
            "rand::random",
            "rand::rngs::OsRng",
            "rand::rngs::ThreadRng",
            "getrandom",
            "fastrand",
        ],
        macros: &[],
        remedy: "use the simulator's random streams, which depend on its seed",
    },
    Ban {
        crates: PURE,
        paths: &["std::fs", "std::net", "std::os", "std::process", "std::env"],
        macros: &[],
        remedy: "leave the operating system to the transports",
    },
    Ban {
        crates: &["fabric", "geometry", "index", "sim", "transport", "bench"],
        paths: &["std::io::stdout", "std::io::stderr", "std::io::stdin"],
        macros: &["println", "print", "eprintln", "eprint"],
        remedy: "return it; only the command prints",
    },
];

/// Crates in which the order of a hash map could become part of a result.
const DETERMINISTIC: &[&str] = &["index", "sim"];
const HASHED: &[&str] = &["HashMap", "HashSet"];
const KEYED_ONLY: &str = "// keyed only";

/// Crates without global state.
const STATELESS: &[&str] = &["index", "sim"];

fn check(tree: &SourceTree) -> Vec<Violation> {
    // A build script prints instructions for cargo.
    let sources = tree.rust_files().filter(|(file, _)| file.krate().is_some() && file.name() != "build.rs");
    sources.flat_map(|(file, rust)| check_file(file, rust)).collect()
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let krate = file.krate().unwrap_or_default();
    let tokens = rust.tokens_outside_tests();
    let mut violations = Vec::new();
    for path in paths(&tokens) {
        for ban in BANS.iter().filter(|ban| ban.crates.contains(&krate) && ban.hits(&path)) {
            let found = format!("`{}` in {krate}", path.segments.join("::"));
            violations.push(Violation::new(file, path.line, found, ban.remedy));
        }
    }
    for (index, token) in tokens.iter().enumerate() {
        if DETERMINISTIC.contains(&krate) && HASHED.contains(&token.text) && !is_keyed_only(file, token.line)
        {
            let remedy = "use a BTreeMap, or say `// keyed only` on that line if it is never iterated";
            violations.push(Violation::new(file, token.line, format!("`{}` in {krate}", token.text), remedy));
        }
        let is_lifetime = index > 0 && tokens[index - 1].text == "'";
        if STATELESS.contains(&krate) && token.text == "static" && !is_lifetime {
            let remedy = "keep it in the value that the caller holds";
            violations.push(Violation::new(file, token.line, format!("global state in {krate}"), remedy));
        }
    }
    violations
}

impl Ban {
    fn hits(&self, path: &Path<'_>) -> bool {
        let called = path.is_macro && path.segments.last().is_some_and(|name| self.macros.contains(name));
        called || self.paths.iter().any(|banned| is_below(&path.segments, banned))
    }
}

/// Whether a path is `banned` or inside it. `std` may be missing, as after `use std::thread`, if a segment follows.
fn is_below(segments: &[&str], banned: &str) -> bool {
    let banned: Vec<&str> = banned.split("::").collect();
    let short = banned.strip_prefix(&["std"]).unwrap_or(&banned);
    segments.starts_with(&banned) && segments.len() > 1 || segments.starts_with(short) && segments.len() > 1
}

fn is_keyed_only(file: &File, line: usize) -> bool {
    file.text.lines().nth(line - 1).is_some_and(|line| line.contains(KEYED_ONLY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    fn found(path: &str, text: &str) -> Vec<String> {
        found_by(RULE, &[(path, text)])
    }

    #[test]
    fn clocks_threads_and_files_are_found() {
        assert_eq!(
            found(
                "crates/index/src/a.rs",
                "use std::{fs,\n time::{Duration, Instant}};\nfn f() { thread::sleep(d) }"
            ),
            [
                "crates/index/src/a.rs:1 `std::fs` in index",
                "crates/index/src/a.rs:2 `std::time::Instant` in index",
                "crates/index/src/a.rs:3 `thread::sleep` in index",
            ]
        );
    }

    #[test]
    fn other_crates_comments_strings_and_tests_are_allowed() {
        assert!(found("crates/transport/src/a.rs", "use std::thread;").is_empty());
        assert!(
            found("crates/index/src/a.rs", "// std::thread\nconst A: &str = \"std::thread\";").is_empty()
        );
        assert!(found("crates/index/src/a.rs", "#[cfg(test)]\nmod t { use std::thread; }").is_empty());
        assert!(found("crates/index/src/a.rs", "let thread = self.fs.net(rand);").is_empty());
    }

    #[test]
    fn the_simulator_may_use_its_seed_only() {
        assert!(found("crates/sim/src/a.rs", "use rand::rngs::SmallRng;").is_empty());
        assert_eq!(found("crates/sim/src/a.rs", "rand::rng()").len(), 1);
        assert_eq!(found("crates/index/src/a.rs", "use rand::rngs::SmallRng;").len(), 1);
    }

    #[test]
    fn only_the_command_prints() {
        assert_eq!(found("crates/bench/src/a.rs", "fn f() {\n std::println!(\"\") }").len(), 1);
        assert!(found("crates/farwood/src/a.rs", "fn f() { println!(\"\") }").is_empty());
        assert!(found("crates/bench/src/a.rs", "fn println() {}").is_empty());
    }

    #[test]
    fn hash_maps_must_be_keyed_only() {
        let text = "use std::collections::HashMap; // keyed only\nfn f(a: HashMap<u8, u8>) {}";
        assert_eq!(found("crates/sim/src/a.rs", text), ["crates/sim/src/a.rs:2 `HashMap` in sim"]);
        assert!(found("crates/bench/src/a.rs", text).is_empty());
    }

    #[test]
    fn an_index_has_no_global_state() {
        assert_eq!(found("crates/index/src/a.rs", "static A: u8 = 0;\nfn f(a: &'static str) {}").len(), 1);
        assert_eq!(found("crates/index/src/a.rs", "thread_local! {}").len(), 1);
    }
}
