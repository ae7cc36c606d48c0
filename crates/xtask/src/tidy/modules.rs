//! The modules of a crate and the imports between them, read from `use` declarations and paths.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::paths;
use super::rust::Token;
use super::tree::{File, SourceTree};

/// Re-exports that are followed before a path counts as unresolved.
const REEXPORTS_MAX: usize = 8;

/// The path of a module within its crate: empty for the root, `["shm", "pool"]` for `crate::shm::pool`.
type ModulePath<'a> = Vec<&'a str>;

/// The modules of one crate, outside tests.
pub(super) struct Modules<'a> {
    by_path: BTreeMap<ModulePath<'a>, Module<'a>>,
}

/// One module: a file, and the paths that its code names.
struct Module<'a> {
    file: &'a str,
    /// Paths that begin with `crate` or `super`.
    named: Vec<Vec<&'a str>>,
    /// Names that `use` declarations bring into scope, with their paths.
    uses: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Modules<'a> {
    /// Reads the modules of the crate in the folder `krate`.
    pub(super) fn of(tree: &'a SourceTree, krate: &str) -> Self {
        let sources = format!("crates/{krate}/src/");
        let mut by_path = BTreeMap::new();
        for (file, rust) in tree.rust_files() {
            let Some(path) = file.path.strip_prefix(&sources).and_then(module_path) else { continue };
            let tokens = rust.tokens_outside_tests();
            let named = paths(&tokens).into_iter().map(|path| path.segments);
            let named = named.filter(|path| matches!(path[0], "crate" | "super") && path.len() > 1);
            let named = named.collect();
            by_path.insert(path, Module { file: &file.path, named, uses: uses(&tokens) });
        }
        Self { by_path }
    }

    /// Every file, each with the other files of the crate whose items it names through `crate` or `super`.
    pub(super) fn imports(&self) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let imports = |(path, module): (&ModulePath<'a>, &Module<'a>)| {
            let targets = module.named.iter().filter_map(|named| self.resolve(path, named, REEXPORTS_MAX));
            (module.file, targets.filter(|target| *target != module.file).collect())
        };
        self.by_path.iter().map(imports).collect()
    }

    /// The file that defines the item which `named` leads to from the module `from`.
    fn resolve(&self, from: &[&'a str], named: &[&'a str], reexports_left: usize) -> Option<&'a str> {
        let mut at: ModulePath<'a> = from.to_vec();
        let mut rest = named;
        match rest {
            ["crate", after @ ..] => (at, rest) = (Vec::new(), after),
            ["self", after @ ..] => rest = after,
            ["super", ..] => {
                while let ["super", after @ ..] = rest {
                    at.pop()?;
                    rest = after;
                }
            }
            // The first segment of any other path is a child module, or the name of another crate.
            [first, ..] if !self.has_child(&at, first) => return None,
            _ => {}
        }
        while let [next, after @ ..] = rest {
            if !self.has_child(&at, next) {
                break;
            }
            at.push(next);
            rest = after;
        }
        let module = self.by_path.get(&at)?;
        let reexport = rest.first().and_then(|name| module.uses.get(name)).filter(|_| reexports_left > 0);
        let behind = reexport.and_then(|path| {
            let path: Vec<&str> = path.iter().chain(&rest[1..]).copied().collect();
            self.resolve(&at, &path, reexports_left - 1)
        });
        behind.or(Some(module.file))
    }

    fn has_child(&self, parent: &[&'a str], name: &'a str) -> bool {
        let child: ModulePath<'a> = parent.iter().copied().chain([name]).collect();
        self.by_path.contains_key(&child)
    }
}

/// Names of the crates of the tree.
pub(super) fn crates(tree: &SourceTree) -> BTreeSet<&str> {
    tree.files().filter_map(File::krate).collect()
}

/// The module that a file of `src` defines; none for binaries, which are separate crates.
fn module_path(file: &str) -> Option<ModulePath<'_>> {
    let mut path: ModulePath<'_> = file.strip_suffix(".rs")?.split('/').collect();
    match path.as_slice() {
        ["main"] | ["bin", ..] => return None,
        ["lib"] => path.clear(),
        [.., "mod"] => drop(path.pop()),
        _ => {}
    }
    Some(path)
}

/// The names that the `use` declarations of a file bring into scope, each with its path.
fn uses<'a>(tokens: &[Token<'a>]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut uses = BTreeMap::new();
    for (start, _) in tokens.iter().enumerate().filter(|(_, token)| token.text == "use") {
        let length = tokens[start..].iter().position(|token| token.text == ";").unwrap_or(0);
        let declaration = paths(&tokens[start + 1..start + length.max(1)]);
        let mut path: Vec<&str> = Vec::new();
        let mut is_alias = false;
        for next in declaration {
            match next.segments.as_slice() {
                ["as"] => is_alias = true,
                [alias] if is_alias => {
                    uses.insert(*alias, path.clone());
                    is_alias = false;
                }
                segments => {
                    path = segments.strip_suffix(&["self"]).unwrap_or(segments).to_vec();
                    if let Some(name) = path.last() {
                        uses.insert(*name, path.clone());
                    }
                }
            }
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let tree = SourceTree::of(files);
        let modules = Modules::of(&tree, "a");
        let edge = |(from, to): (&str, &str)| {
            let short = |path: &str| path.trim_start_matches("crates/a/src/").to_owned();
            format!("{} -> {}", short(from), short(to))
        };
        let imports = modules.imports();
        imports.iter().flat_map(|(from, to)| to.iter().map(|to| edge((from, to)))).collect()
    }

    #[test]
    fn paths_lead_to_the_file_that_defines_the_item() {
        let files = [
            ("crates/a/src/lib.rs", "mod b; mod c; pub use c::d::Deep; pub struct Root;"),
            ("crates/a/src/b.rs", "use crate::{Deep, Root, c::{self, Middle}};"),
            ("crates/a/src/c/mod.rs", "mod d; pub use d::Deep as Middle;"),
            ("crates/a/src/c/d.rs", "fn f() { super::super::b::g() }"),
        ];
        assert_eq!(
            imports(&files),
            ["b.rs -> c/d.rs", "b.rs -> c/mod.rs", "b.rs -> lib.rs", "c/d.rs -> b.rs"]
        );
    }

    #[test]
    fn tests_and_other_crates_are_not_imports() {
        let files = [
            ("crates/a/src/lib.rs", "mod b;"),
            ("crates/a/src/b.rs", "use other::c;\n#[cfg(test)]\nmod tests { use crate::c; }"),
            ("crates/a/src/c.rs", "use std::fmt;"),
            ("crates/b/src/c.rs", "use crate::b;"),
        ];
        assert!(imports(&files).is_empty());
    }
}
