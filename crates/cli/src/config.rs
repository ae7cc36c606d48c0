//! The configuration file: a flag overrides the environment, the environment the file, the file the default.
//!
//! The file has one table for each command, whose keys are the long options of that command. Keys at the top of the
//! file set the options that all commands share:
//!
//! ```toml
//! json = true
//!
//! [create]
//! memory = "8GiB"
//! nodes = 2
//!
//! [pools]
//! words = "tcp://host-a:7470,host-b:7470?tls-ca=/etc/farwood/ca.pem"
//! ```
//!
//! The table `pools` defines short names for pools: `pool://words/INDEX` is an index of the pool `words`. An entry is
//! read only when a command uses it, so an error in another entry does no harm.
//!
//! A value in the file replaces the default of its option, so clap gives flags and the environment precedence. If a
//! flag or the environment sets a conflicting option, the value in the file is ignored. An unknown table or key is an
//! error.

use super::Failure;
use crate::failure::shown;
use clap::builder::{ArgPredicate, OsStr, Resettable};
use clap::{Arg, ArgAction, Command, Id};
use farwood::Url;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the file, in the current directory and in the user's configuration directory.
const FILE: &str = "farwood.toml";

/// The configuration file, with the short names of pools.
#[derive(Debug, Default)]
pub(crate) struct ConfigFile {
    /// The table `pools` as it is in the file.
    pools: toml::Table,
    /// The file, if there is one.
    path: Option<PathBuf>,
    /// The options that it sets: the command, or "" at the top, and the long option.
    options: Vec<(String, String)>,
}

impl ConfigFile {
    /// The name of an option in the file, if the file sets it. `command` is "" for options of all commands.
    pub(crate) fn key(&self, command: &str, long: &str) -> Option<String> {
        let path = self.path.as_ref()?;
        let set = self.options.iter().any(|(table, key)| table == command && key == long);
        let table = if command.is_empty() { String::new() } else { format!("[{command}] ") };
        set.then(|| format!("{table}{long} in {}", shown(path)))
    }

    /// The message for a short name that is not in the file.
    fn no_pool(&self, short: &str, name: &str) -> String {
        let missing = format!("{SHORT}{short}: there is no pool '{name}'");
        let line = format!("{name} = \"shm://NAME\"");
        match &self.path {
            None => format!(
                "{missing}, because there is no configuration file; write {FILE} with the table [pools] and the line \
                 {line}, or name the file with --config"
            ),
            Some(path) if self.pools.is_empty() => format!(
                "{missing}, because {} has no table [pools]; add it with the line {line}",
                shown(path)
            ),
            Some(path) => format!(
                "{missing} in the table [pools] of {}; choose one of {}, or add the line {line}",
                shown(path),
                self.pools.keys().map(String::as_str).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    /// The pool of that name; `None` if there is none.
    fn pool(&self, name: &str) -> Option<Result<Url, String>> {
        let value = self.pools.get(name)?;
        let read = |value: &toml::Value| {
            let url = value
                .as_str()
                .ok_or_else(|| format!("'{name}' in [pools] must be a string, the URL of a pool"))?;
            let url: Url = url.parse().map_err(|error| format!("'{name}' in [pools]: {error}"))?;
            match url.index() {
                None => Ok(url),
                Some(_) => {
                    Err(format!("'{name}' in [pools] must be the URL of a pool, and {url} is an index"))
                }
            }
        };
        Some(read(value))
    }

    /// Replaces short names in the arguments by URLs.
    pub(crate) fn resolve(&self, arguments: Vec<OsString>) -> Result<Vec<OsString>, Failure> {
        let resolve = |argument: OsString| match argument.to_str().and_then(|text| text.split_once(SHORT)) {
            Some((before, rest))
                if before.is_empty() || before.starts_with("--") && before.ends_with('=') =>
            {
                Ok(format!("{before}{}", self.url(rest)?).into())
            }
            _ => Ok(argument),
        };
        arguments.into_iter().map(resolve).collect()
    }

    /// The URL for `NAME` or `NAME/INDEX`.
    fn url(&self, short: &str) -> Result<Url, Failure> {
        let (name, index) = short.split_once('/').map_or((short, None), |(name, index)| (name, Some(index)));
        let pool = self.pool(name).ok_or_else(|| Failure::Usage(self.no_pool(short, name)))?;
        let path = self.path.as_deref().unwrap_or(Path::new(FILE));
        let pool = pool.map_err(|why| Failure::Usage(format!("{}: {why}", shown(path))))?;
        Ok(index.map_or_else(|| pool.clone(), |index| pool.index_url(index)))
    }
}

/// The prefix of a short name.
const SHORT: &str = "pool://";

/// Gives every option its environment variable and its default from the file. Also returns the file.
pub(crate) fn configure(command: Command, arguments: &[OsString]) -> Result<(Command, ConfigFile), Failure> {
    let command = with_environment(command);
    let Some((path, source)) = find(arguments) else { return Ok((command, ConfigFile::default())) };
    let text = read(&path, source)?;
    apply(command, &path, &text)
}

/// The text of the file that `source` names.
fn read(path: &Path, source: &'static str) -> Result<String, Failure> {
    let refuse = |why| Failure::Usage(format!("{source}: {}: {why}", shown(path)));
    let bytes = farwood::internal::small_file::read(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => refuse(format!("{error}; name a configuration file")),
        _ => Failure::file(source, "read", path, error),
    })?;
    String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8 text; convert it to UTF-8".to_owned()))
}

/// Finds the file and what names it: the command line, the environment, or the default names in the current directory
/// and in the user's configuration directory.
fn find(arguments: &[OsString]) -> Option<(PathBuf, &'static str)> {
    const OPTION: &str = "--config";
    const VARIABLE: &str = "FARWOOD_CONFIG";
    let mut rest = arguments.iter().skip(1);
    while let Some(argument) = rest.next() {
        if argument == "--" {
            break;
        }
        if argument == OPTION {
            return rest.next().map(|path| (path.into(), OPTION));
        }
        if let Some(path) = argument.to_str().and_then(|argument| argument.strip_prefix("--config=")) {
            return Some((path.into(), OPTION));
        }
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = variable(VARIABLE) {
        return Some((path, VARIABLE));
    }
    let folder = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
    let folders = [Some(PathBuf::new()), folder.map(|folder| folder.join("farwood"))];
    folders
        .into_iter()
        .flatten()
        .map(|folder| (folder.join(FILE), "configuration"))
        .find(|(path, _)| path.is_file())
}

/// Whether the file and the environment can set the option: not those of clap, `--config` and hidden ones.
pub(crate) fn settable(argument: &Arg) -> bool {
    !argument.is_hide_set()
        && argument.get_long().is_some_and(|long| !matches!(long, "help" | "version" | "config"))
}

fn with_environment(command: Command) -> Command {
    let variable = |prefix: &str, argument: Arg| {
        if settable(&argument) && argument.get_env().is_none() {
            let long = argument.get_long().unwrap_or_default();
            let name = format!("{prefix}{long}").replace('-', "_").to_uppercase();
            argument.env(name).hide_env(true)
        } else {
            argument
        }
    };
    command.mut_args(|argument| variable("FARWOOD_", argument)).mut_subcommands(|command| {
        let prefix = format!("FARWOOD_{}_", command.get_name());
        command.mut_args(|argument| variable(&prefix, argument))
    })
}

/// Makes the values in the file the defaults of their options.
fn apply(mut command: Command, path: &Path, text: &str) -> Result<(Command, ConfigFile), Failure> {
    let refuse = |why: String| Failure::Usage(format!("{}: {why}", shown(path)));
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| refuse(not_toml(&error, text)))?;
    let pools = match table.remove("pools") {
        None => toml::Table::new(),
        Some(toml::Value::Table(pools)) => pools,
        Some(_) => return Err(refuse("'pools' must be a table".to_owned())),
    };
    // `whole` also has the global options in each subcommand.
    let mut set = Vec::new();
    let mut whole = command.clone();
    whole.build();
    for (key, value) in table {
        command = match value {
            toml::Value::Table(options) => {
                let Some((subcommand, whole)) =
                    command.find_subcommand(&key).zip(whole.find_subcommand(&key))
                else {
                    return Err(refuse(format!(
                        "there is no command '{key}' for the table [{key}]; `farwood --help` lists the commands"
                    )));
                };
                set.extend(options.keys().map(|long| (key.clone(), long.clone())));
                let applied = apply_all((subcommand.clone(), whole), options, &key).map_err(refuse)?;
                command.mut_subcommand(key, |_| applied)
            }
            value => {
                let applied = set_default((command, &whole), &key, &value, "").map_err(refuse)?;
                set.push((String::new(), key));
                applied
            }
        };
    }
    Ok((command, ConfigFile { pools, path: Some(path.to_owned()), options: set }))
}

/// The reason why a text is not TOML. The parser's own text has several lines and quotes the file.
fn not_toml(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let why = error.message().lines().collect::<Vec<_>>().join(", ");
    format!(
        "line {line}, column {column}: it is not TOML: {why}; correct the line (https://toml.io describes the format)"
    )
}

fn apply_all(
    (mut command, whole): (Command, &Command),
    options: toml::Table,
    name: &str,
) -> Result<Command, String> {
    refuse_conflicts(whole, &options, name)?;
    for (key, value) in options {
        command = set_default((command, whole), &key, &value, name)?;
    }
    Ok(command)
}

/// Refuses two options that conflict.
fn refuse_conflicts(whole: &Command, options: &toml::Table, of: &str) -> Result<(), String> {
    let said = |option: &Arg| {
        let value = option.get_long().and_then(|long| options.get(long));
        value.is_some_and(|value| *value != toml::Value::Boolean(false))
    };
    for option in whole.get_arguments().filter(|option| said(option)) {
        let conflicting = conflicts(whole, option.get_id());
        let other = whole
            .get_arguments()
            .find(|other| said(other) && conflicting.iter().any(|(id, _)| id == other.get_id()));
        if let (Some(one), Some(other)) = (option.get_long(), other.and_then(Arg::get_long)) {
            return Err(format!("'{one}' and '{other}' in [{of}] conflict; remove one of them"));
        }
    }
    Ok(())
}

/// The options that conflict with the option `id`, and when they do. An option with a default value is always present
/// and does not conflict.
fn conflicts(whole: &Command, id: &Id) -> Vec<(Id, ArgPredicate)> {
    let excludes = |one: &Arg, other: &Id| {
        whole.get_arg_conflicts_with(one).into_iter().any(|excluded| excluded.get_id() == other)
    };
    let grouped = |other: &Id| {
        let mut groups = whole.get_groups().cloned();
        groups.any(|mut group| {
            let members: Vec<_> = group.get_args().cloned().collect();
            !group.is_multiple() && members.contains(id) && members.contains(other)
        })
    };
    let Some(this) = whole.get_arguments().find(|argument| argument.get_id() == id) else {
        return Vec::new();
    };
    let others = whole.get_arguments().filter(|other| other.get_id() != id);
    let conflicting = others
        .filter(|other| excludes(this, other.get_id()) || excludes(other, id) || grouped(other.get_id()));
    let predicate = |other: &Arg| match other.get_action() {
        ArgAction::SetTrue => ArgPredicate::Equals("true".into()),
        _ => ArgPredicate::IsPresent,
    };
    let says = |other: &&Arg| {
        matches!(other.get_action(), ArgAction::SetTrue) || other.get_default_values().is_empty()
    };
    conflicting.filter(says).map(|other| (other.get_id().clone(), predicate(other))).collect()
}

/// An option that may be given several times.
#[derive(Clone, Copy, Debug)]
struct List;

/// The texts of a value in the file; `None` if its type is not that of an option.
fn texts(value: &toml::Value, list: Option<List>) -> Option<Vec<String>> {
    match (value, list) {
        (toml::Value::String(text), _) => Some(vec![text.clone()]),
        (toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_), _) => {
            Some(vec![value.to_string()])
        }
        (toml::Value::Array(values), Some(List)) => {
            Some(values.iter().map(|value| texts(value, None)).collect::<Option<Vec<_>>>()?.concat())
        }
        _ => None,
    }
}

/// The type of a value, for an error.
fn with_article(value: &toml::Value) -> String {
    let name = value.type_str();
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn set_default(
    (command, whole): (Command, &Command),
    key: &str,
    value: &toml::Value,
    of: &str,
) -> Result<Command, String> {
    let matching = |argument: &&Arg| settable(argument) && argument.get_long() == Some(key);
    let Some(id) = command.get_arguments().find(matching).map(|argument| argument.get_id().clone()) else {
        let (place, command) = match of {
            "" => ("at the top".to_owned(), "farwood".to_owned()),
            of => (format!("in [{of}]"), format!("farwood {of}")),
        };
        return Err(format!(
            "unknown key '{key}' {place}; the keys are the long options that `{command} --help` lists"
        ));
    };
    let takes_list = command
        .get_arguments()
        .any(|option| *option.get_id() == id && matches!(option.get_action(), ArgAction::Append));
    let values = texts(value, takes_list.then_some(List)).ok_or_else(|| {
        let place = if of.is_empty() { String::new() } else { format!(" in [{of}]") };
        let list = if takes_list { ", or an array of these" } else { "" };
        format!(
            "'{key}'{place} must be a string, a number, or true or false{list}, and is {}",
            with_article(value)
        )
    })?;
    let conflicting = conflicts(whole, &id);
    Ok(command.mut_arg(id, |argument| {
        // An option that conflicts with another has at most one default.
        let own = argument.get_default_values().first().cloned();
        let flag = matches!(argument.get_action(), ArgAction::SetTrue).then(|| OsStr::from("false"));
        let without = own.or(flag);
        let unless = conflicting
            .into_iter()
            .map(|(other, predicate)| (other, predicate, Resettable::from(without.clone())));
        argument.default_value_ifs(unless).default_values(values)
    }))
}
