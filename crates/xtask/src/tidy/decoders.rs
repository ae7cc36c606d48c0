//! Code that decodes far memory, files of logs and backups, or geometries of users, does not panic because of what it
//! reads.

use super::rust::{Rust, Token};
use super::{File, Rule, SourceTree, Violation};

pub(super) const RULE: Rule = Rule {
    name: "decoders",
    requires: "no `expect`, `unwrap` or `unreachable!` in a module that decodes input, unless the comment above \
               begins with `Cannot fail:` and proves it",
    check,
};

/// The modules that decode bytes of far memory, of files or geometries: files, and folders that end with a slash.
const MODULES: &[&str] = &[
    "crates/fabric/src/chunks.rs",
    "crates/fabric/src/client_table.rs",
    "crates/fabric/src/directory.rs",
    "crates/fabric/src/fetched.rs",
    "crates/fabric/src/little_endian.rs",
    "crates/fabric/src/lock_word.rs",
    "crates/fabric/src/pointer.rs",
    "crates/fabric/src/sealed_word.rs",
    "crates/fabric/src/superblock.rs",
    "crates/farwood/src/backup/block.rs",
    "crates/farwood/src/backup/parts.rs",
    "crates/farwood/src/backup/reader.rs",
    "crates/geometry/src/format/",
    "crates/geometry/src/geometry.rs",
    "crates/index/src/catfish/records/blob.rs",
    "crates/index/src/catfish/records/lookup.rs",
    "crates/index/src/catfish/records/node.rs",
    "crates/index/src/catfish/records/page.rs",
    "crates/index/src/catfish/tree/copy.rs",
    "crates/index/src/catfish/tree/filter.rs",
    "crates/index/src/catfish/tree/layout.rs",
    "crates/index/src/catfish/wire/",
    "crates/index/src/consistency/",
    "crates/index/src/memory/adopt.rs",
    "crates/index/src/memory/overflow.rs",
    "crates/index/src/radix/format/",
    "crates/index/src/sherman/inner.rs",
    "crates/index/src/sherman/leaf.rs",
    "crates/index/src/sherman/node.rs",
    "crates/index/src/sherman/values.rs",
    "crates/index/src/sphinx/table/directory.rs",
    "crates/index/src/sphinx/table/layout.rs",
    "crates/transport/src/daemon/log/files.rs",
    "crates/transport/src/daemon/log/record.rs",
    "crates/transport/src/daemon/log/recovery.rs",
    "crates/transport/src/daemon/log/segment_reader.rs",
    "crates/transport/src/shm/journal.rs",
    "crates/transport/src/wire/",
];

/// The beginning of a comment that proves that the line below cannot fail.
const PROOF: &str = "// Cannot fail: ";

const REMEDY: &str =
    "return an error or restructure the code, or prove it in a comment: `// Cannot fail: ..`";

fn check(tree: &SourceTree) -> Vec<Violation> {
    let decodes =
        |path: &str, module: &str| path == module || module.ends_with('/') && path.starts_with(module);
    let mut violations: Vec<_> = tree
        .rust_files()
        .filter(|(file, _)| MODULES.iter().any(|module| decodes(&file.path, module)))
        .flat_map(|(file, rust)| check_file(file, rust))
        .collect();
    if let Some(list) = tree.files().find(|file| file.path.ends_with("xtask/src/tidy/decoders.rs")) {
        let missing = MODULES.iter().filter(|module| !tree.files().any(|file| decodes(&file.path, module)));
        let found =
            missing.map(|module| Violation::new(list, 1, format!("no module {module}"), "correct the list"));
        violations.extend(found);
    }
    violations
}

fn check_file(file: &File, rust: &Rust) -> Vec<Violation> {
    let tokens = rust.tokens();
    let panics = (0..tokens.len()).filter_map(|at| panic_at(&tokens, at).map(|name| (tokens[at].line, name)));
    panics
        .filter(|(line, _)| !rust.is_test(*line) && !is_proven(file, *line))
        .map(|(line, name)| Violation::new(file, line, format!("`{name}` in a decoder"), REMEDY))
        .collect()
}

/// The name of the panic that begins at the token.
fn panic_at(tokens: &[Token<'_>], at: usize) -> Option<&'static str> {
    let text = |at: usize| tokens.get(at).map(|token| token.text);
    let is_method = at > 0 && text(at - 1) == Some(".") && text(at + 1) == Some("(");
    match text(at)? {
        "expect" if is_method => Some("expect"),
        "unwrap" if is_method => Some("unwrap"),
        "unreachable" if text(at + 1) == Some("!") => Some("unreachable!"),
        _ => None,
    }
}

/// Whether the comment above the statement of the line has a proof. The statement may begin a few lines above.
fn is_proven(file: &File, line: usize) -> bool {
    /// Lines of a statement, and of its comment.
    const LINES_MAX: usize = 6;
    let above: Vec<_> =
        file.lines().take_while(|(number, _)| *number <= line).map(|(_, text)| text.trim()).collect();
    let statement = above.iter().rev().skip(1).take(LINES_MAX);
    for text in statement {
        if text.starts_with(PROOF) {
            return true;
        }
        if text.ends_with(';') && !text.starts_with("//") || text.ends_with('}') {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::found_by;

    const DECODER: &str = "crates/fabric/src/directory.rs";

    fn found(text: &str) -> Vec<String> {
        found_by(RULE, &[(DECODER, text)])
    }

    #[test]
    fn panics_in_decoders_are_found() {
        assert_eq!(found("fn f() {\n a.expect(\"b\")\n}"), [format!("{DECODER}:2 `expect` in a decoder")]);
        assert_eq!(found("fn f() { a.unwrap(); unreachable!(\"b\") }").len(), 2);
        let module = "crates/index/src/radix/format/leaf.rs";
        assert_eq!(found_by(RULE, &[(module, "fn f() { a.unwrap() }")]).len(), 1, "a folder of decoders");
    }

    #[test]
    fn proven_and_other_code_is_free() {
        assert!(found("// Cannot fail: it is one.\nlet a = b.expect(\"one\");").is_empty());
        assert!(
            found(
                "// Cannot fail: a proof\n// of two lines.\nlet Some(a) = b else {\n unreachable!(\"c\")\n};"
            )
            .is_empty()
        );
        assert!(found("#[expect(dead_code)]\nfn unwrap() { a.unwrap_or(b) }").is_empty());
        assert!(found("#[cfg(test)]\nmod tests { fn f() { a.unwrap() } }").is_empty());
        assert!(found_by(RULE, &[("crates/cli/src/main.rs", "fn f() { a.unwrap() }")]).is_empty());
    }

    #[test]
    fn a_proof_covers_one_statement() {
        assert_eq!(found("// Cannot fail: it is one.\nlet a = b.unwrap();\nlet c = d.unwrap();").len(), 1);
        assert_eq!(found("// It is one.\nlet a = b.unwrap();").len(), 1);
    }

    #[test]
    fn a_module_that_is_not_there_is_found() {
        let list = ("crates/xtask/src/tidy/decoders.rs", "");
        assert_eq!(found_by(RULE, &[list]).len(), MODULES.len());
    }
}
