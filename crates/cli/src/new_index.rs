//! `farwood new-index`: writes a project for an index of the user's own.

use super::{Context, Failure, Format, Outcome};
use serde_json::json;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Example:
  farwood new-index my-index
  cd my-index
  cargo run --release -- check
  cargo run --release -- bench --beside sherman,smart

The project is a hash table with one READ per lookup; replace it by your index. docs/your-index.md explains the trait.

Exit code 4: the folder exists.";

/// Write a project with an index of your own, which is checked and measured on simulated far memory
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Name of the project: letters, digits, - and _
    name: String,
    /// Folder in which the project's folder is created
    #[arg(long, default_value = ".", value_name = "FOLDER")]
    parent: PathBuf,
    /// The source of Farwood, on which the project depends [default: the source of this program]
    #[arg(long, value_name = "FOLDER")]
    farwood: Option<PathBuf>,
}

/// Exit code if the folder exists.
const EXISTS: u8 = 4;
/// The source of this program when it was built.
const OWN_SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const PROGRAM: &str = include_str!("../../lab/template/src/main.rs");
/// The laboratory in the source of Farwood.
const LAB: &str = "crates/lab";

/// The tests of the project.
const TESTS: &str = "
#[cfg(test)]
mod tests {
    use super::HashTable;
    use farwood_lab::testing;

    #[test]
    fn every_answer_is_explained() {
        testing::check::<HashTable>(200);
    }

    #[test]
    fn crashed_clients_leave_nothing_wrong() {
        testing::crashes::<HashTable>();
    }
}
";

pub(crate) fn run(args: &Args, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    check_name(&args.name)?;
    let source = source_of(args)?;
    let folder = args.parent.join(&args.name);
    let failed = |what: &'static str, path: &Path, source| Failure::file("new-index", what, path, source);
    if !args.parent.is_dir() {
        let text =
            format!("new-index: --parent: there is no folder {}; create it first", args.parent.display());
        return Err(Failure::Usage(text));
    }
    fs::create_dir(&folder).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            let text = format!("new-index: {} exists; give another name or --parent", folder.display());
            Failure::Other { text, exit_code: EXISTS }
        }
        _ => failed("create", &folder, error),
    })?;
    let src = folder.join("src");
    fs::create_dir(&src).map_err(|error| failed("create", &src, error))?;
    let files = [
        ("Cargo.toml", manifest(&args.name, &source)),
        (".gitignore", "/target\n".to_owned()),
        ("src/main.rs", format!("{PROGRAM}{TESTS}")),
    ];
    for (name, text) in &files {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| failed("write", &path, error))?;
    }
    // The versions with which Farwood itself is built and tested.
    let (lock, to) = (source.join("Cargo.lock"), folder.join("Cargo.lock"));
    fs::copy(&lock, &to).map_err(|error| failed("copy", &lock, error))?;
    match context.format {
        Format::Json => writeln!(context.out, "{}", json!({ "folder": folder, "farwood": source }))?,
        Format::Text => writeln!(
            context.out,
            "{} is a hash table in far memory. Next:\n  cd {}\n  cargo run --release -- check",
            folder.display(),
            folder.display()
        )?,
    }
    Ok(Outcome::Done)
}

/// Refuses names that cargo refuses.
fn check_name(name: &str) -> Result<(), Failure> {
    let is_valid = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|each| each.is_ascii_alphanumeric() || "-_".contains(each));
    if is_valid {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "new-index: '{name}' is not a name; begin with a letter, and use letters, digits, - and _"
    )))
}

/// The source of Farwood.
fn source_of(args: &Args) -> Result<PathBuf, Failure> {
    let given = args.farwood.as_deref().unwrap_or(Path::new(OWN_SOURCE));
    let lab = given.join(LAB).join("Cargo.toml");
    match (lab.exists(), fs::canonicalize(given)) {
        (true, Ok(source)) => Ok(source),
        (false, _) => Err(Failure::Usage(format!(
            "new-index: {} is not the source of Farwood; give its folder with --farwood",
            given.display()
        ))),
        (true, Err(error)) => Err(Failure::file("new-index", "find", given, error)),
    }
}

fn manifest(name: &str, source: &Path) -> String {
    let lab = source.join(LAB);
    format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\nfarwood-lab = {{ \
         path = {:?} }}\n\n# The project is no part of another workspace.\n[workspace]\n",
        lab.display().to_string()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_cargo() {
        for name in ["a", "my-index", "my_index2"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "2a", "a/b", "..", "a b", "-a"] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
