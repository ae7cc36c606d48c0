//! `include/farwood.h` is the header that cbindgen makes from the sources. `FARWOOD_BLESS=1` writes it.

use cbindgen::{Builder, Config, DocumentationLength, Language};
use std::collections::HashMap;
use std::path::Path;

/// The names of the types in Rust and in C.
const TYPES: [(&str, &str); 16] = [
    ("FwPool", "fw_pool"),
    ("FwPoolOptions", "fw_pool_options"),
    ("FwIndexInfo", "fw_index_info"),
    ("FwIndexInfoFn", "fw_index_info_fn"),
    ("FwIndex", "fw_index"),
    ("FwIndexOptions", "fw_index_options"),
    ("FwScan", "fw_scan"),
    ("FwRange", "fw_range"),
    ("FwEntryFn", "fw_entry_fn"),
    ("FwSession", "fw_session"),
    ("FwOp", "fw_op"),
    ("FwDone", "fw_done"),
    ("FwSpatial", "fw_spatial"),
    ("FwSpatialOptions", "fw_spatial_options"),
    ("FwItems", "fw_items"),
    ("FwItemFn", "fw_item_fn"),
];

/// The types of C that are in other structs.
const PLAIN_TYPES: [(&str, &str); 2] = [("FwRect", "fw_rect"), ("FwItem", "fw_item")];

/// The structs of options, which have a function that fills in the defaults.
const OPTIONS: [&str; 4] = ["fw_pool_options", "fw_index_options", "fw_range", "fw_spatial_options"];

const BEGINNING: &str = "\
/*
 * The C interface of Farwood: ordered and spatial indexes in shared and far memory, which processes share.
 *
 * Every call that returns int32_t returns FW_OK (0), another expected outcome above 0 (FW_NOT_FOUND, FW_EXISTS, ..), or
 * an error below 0, whose text and remedy fw_last_error stores. No call prints, and no panic or exception leaves one.
 *
 * Pools and indexes may be used by any number of threads at the same time; iterators, items and sessions by one at a
 * time. An object is closed once, by the function of its type, and NULL may be closed. Buffers belong to the caller:
 * the library keeps no pointer to them after a call. A key or a value of no bytes may be NULL, except where NULL has
 * another meaning. docs/c.md is the guide.
 *
 * A test generates this file from the sources with cbindgen; do not edit it.
 */
#ifndef FARWOOD_H
#define FARWOOD_H
";

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn config() -> Config {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h", "string.h"].map(str::to_owned).to_vec(),
        documentation_length: DocumentationLength::Full,
        usize_is_size_t: true,
        line_length: 120,
        tab_width: 4,
        ..Config::default()
    };
    let renamed = TYPES.iter().chain(&PLAIN_TYPES);
    config.export.rename =
        renamed.map(|(rust, c)| ((*rust).to_owned(), (*c).to_owned())).collect::<HashMap<_, _>>();
    config
}

/// A function for each struct of options.
fn defaults() -> String {
    let of = |name: &&str| {
        format!(
            "/**\n * Returns a {name} with all defaults.\n */\n\
             static inline {name} {name}_default(void) {{\n    {name} made;\n    memset(&made, 0, sizeof made);\n    \
             made.size = sizeof made;\n    return made;\n}}\n"
        )
    };
    OPTIONS.iter().map(of).collect::<Vec<_>>().join("\n")
}

/// The header with negative numbers in parentheses, and without the sentences that only rustdoc needs.
fn for_c(generated: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in generated.lines() {
        let line = match line.split_once(" -") {
            Some((name, number)) if name.starts_with("#define ") => format!("{name} (-{number})"),
            _ => line.trim_end().to_owned(),
        };
        match line.trim() {
            "* # Safety" | "* The arguments are as stated." => {}
            "*/" => {
                while lines.last().is_some_and(|last| last.trim() == "*") {
                    lines.pop();
                }
                lines.push(line);
            }
            _ => lines.push(line),
        }
    }
    lines.join("\n") + "\n"
}

fn generated() -> String {
    // cbindgen follows the modules of the root.
    let builder = Builder::new().with_config(config()).with_src(folder().join("src/lib.rs"));
    let mut bytes = Vec::new();
    builder.generate().unwrap().write(&mut bytes);
    let header = for_c(std::str::from_utf8(&bytes).unwrap());
    format!("{BEGINNING}\n{}\n\n{}\n#endif /* FARWOOD_H */\n", header.trim(), defaults())
}

#[test]
fn the_header_is_that_of_the_sources() {
    let path = folder().join("include/farwood.h");
    let generated = generated();
    if std::env::var_os("FARWOOD_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &generated).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        stored == generated,
        "include/farwood.h differs from the sources; run the test with FARWOOD_BLESS=1"
    );
}
