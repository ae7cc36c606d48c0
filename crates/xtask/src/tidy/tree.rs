//! The files of a source tree.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::rust::Rust;

/// Extensions of files that are read. Of other files only the path is known.
const TEXT_EXTENSIONS: &[&str] = &["rs", "toml", "md", "sh", "py", "yml", "yaml"];

/// Other files that are read.
const TEXT_PATHS: &[&str] = &[".ci/run", super::baseline::PATH];

/// Directories that are skipped if git does not list the files.
const WALK_SKIPS: &[&str] = &[".git", "target"];

/// A file of the tree.
#[derive(Debug)]
pub struct File {
    /// Path relative to the root, with `/` between its parts.
    pub path: String,
    /// The contents of the file; empty if the rules do not read files of its kind.
    pub text: String,
    rust: Option<Rust>,
}

impl File {
    fn new(path: String, text: String) -> Self {
        let rust = (extension(&path) == Some("rs")).then(|| Rust::new(&path, &text));
        Self { path, text, rust }
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The folder of its crate: `index` for `crates/index/src/lib.rs`.
    pub fn krate(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(krate, _)| krate)
    }

    /// Whether it is written in Markdown.
    pub(super) fn is_markdown(&self) -> bool {
        extension(&self.path) == Some("md")
    }

    /// Numbered lines, counted from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The files of a working tree: tracked files, and new files that are not ignored.
#[derive(Debug)]
pub struct SourceTree {
    files: Vec<File>,
}

impl SourceTree {
    /// Reads the tree at `root`: the files that git lists, or all files without git.
    pub fn load(root: &Path) -> io::Result<Self> {
        let paths = match git_paths(root) {
            Some(paths) => paths,
            None => walked_paths(root)?,
        };
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let text = if is_text(&path) { fs::read_to_string(root.join(&path))? } else { String::new() };
            files.push(File::new(path, text));
        }
        Ok(Self::new(files))
    }

    /// Marks modules that test code declares as test code.
    fn new(mut files: Vec<File>) -> Self {
        let tests: Vec<String> = files.iter().flat_map(test_modules).collect();
        for file in &mut files {
            let is_below = |module: &String| {
                file.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
            };
            if let Some(rust) = file.rust.as_mut().filter(|_| tests.iter().any(is_below)) {
                rust.mark_as_test();
            }
        }
        Self { files }
    }

    /// A tree of these (path, text) pairs.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|(path, text)| File::new((*path).into(), (*text).into())).collect())
    }

    /// The number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether the tree is empty.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Every file.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.files.iter()
    }

    /// Every Rust file with its code.
    pub(super) fn rust_files(&self) -> impl Iterator<Item = (&File, &Rust)> {
        self.files.iter().filter_map(|file| Some((file, file.rust.as_ref()?)))
    }
}

/// Paths, without extension, of the modules that `file` declares in test code.
fn test_modules(file: &File) -> Vec<String> {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let base = match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder,
        _ => file.path.trim_end_matches(".rs"),
    };
    let names = file.rust.iter().flat_map(Rust::test_modules);
    names.map(|name| format!("{base}/{name}")).collect()
}

fn is_text(path: &str) -> bool {
    TEXT_PATHS.contains(&path)
        || extension(path).is_some_and(|extension| TEXT_EXTENSIONS.contains(&extension))
}

fn extension(path: &str) -> Option<&str> {
    path.rsplit_once('.').map(|(_, extension)| extension)
}

/// Tracked and new files, without files whose removal is not committed.
fn git_paths(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listed = String::from_utf8(output.stdout).ok()?;
    let mut paths: Vec<String> = listed.split_terminator('\0').map(String::from).collect();
    paths.retain(|path| root.join(path).is_file());
    paths.sort();
    paths.dedup();
    Some(paths)
}

fn walked_paths(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_file() {
                let relative = path.strip_prefix(root).expect("the walk starts at the root");
                paths.push(relative.to_string_lossy().replace('\\', "/"));
            } else if path.is_dir() && !WALK_SKIPS.iter().any(|skip| name.starts_with(skip)) {
                directories.push(path);
            }
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_what_git_finds() {
        let root = crate::root();
        let walked = walked_paths(&root).unwrap();
        let listed = git_paths(&root).unwrap_or_default();
        for path in listed.iter().filter(|path| path.starts_with("crates/xtask/")) {
            assert!(walked.contains(path), "{path}");
        }
        assert!(walked.contains(&"crates/xtask/src/tidy/tree.rs".to_string()));
        assert!(!walked.iter().any(|path| path.starts_with("target")), "build output was walked");
    }

    #[test]
    fn a_module_declared_for_tests_is_a_test() {
        let tree = SourceTree::of(&[
            ("crates/a/src/b.rs", "mod d;\n#[cfg(test)]\nmod c;"),
            ("crates/a/src/b/c.rs", "fn f() {}"),
            ("crates/a/src/b/d.rs", "fn f() {}"),
        ]);
        let tests: Vec<bool> = tree.rust_files().map(|(_, rust)| rust.is_test(1)).collect();
        assert_eq!(tests, [false, true, false]);
    }

    #[test]
    fn a_file_knows_its_crate() {
        let tree = SourceTree::of(&[("crates/index/src/lib.rs", ""), ("README.md", "")]);
        let crates: Vec<_> = tree.files().map(File::krate).collect();
        assert_eq!(crates, [Some("index"), None]);
    }
}
