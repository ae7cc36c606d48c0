//! Errors of options whose values come from the environment or the configuration file: the message names the source.

use super::config::{ConfigFile, settable};
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use std::ffi::OsString;
use std::num::{IntErrorKind, ParseIntError};

/// The sources of the values of options.
pub(crate) struct Sources<'a> {
    /// The command, built.
    pub(crate) command: &'a Command,
    /// The command line.
    pub(crate) arguments: &'a [OsString],
    /// The configuration file.
    pub(crate) file: &'a ConfigFile,
}

impl Sources<'_> {
    /// The error with the sources of the values in place of the options.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let mut error = with_remedy_for_numbers(error, self.command);
        for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
            let named = match error.get(kind) {
                Some(ContextValue::String(option)) => ContextValue::String(self.source_or(option)),
                Some(ContextValue::Strings(options)) => {
                    ContextValue::Strings(options.iter().map(|option| self.source_or(option)).collect())
                }
                _ => continue,
            };
            error.insert(kind, named);
        }
        error
    }

    /// The subcommand that the arguments name.
    pub(crate) fn subcommand(&self) -> Option<&Command> {
        self.arguments.iter().skip(1).find_map(|argument| self.command.find_subcommand(argument))
    }

    /// The text of a failure, with the sources of the options that it names.
    pub(crate) fn with_sources(&self, text: &str) -> String {
        let named = |long: &str| {
            let option = format!("--{long}");
            let ends =
                |rest: &str| !rest.starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric());
            text.match_indices(&option).any(|(at, _)| ends(&text[at + option.len()..]))
        };
        let mut text = text.to_owned();
        for (command, option) in self.options() {
            let Some(long) = option.get_long().filter(|long| named(long)) else { continue };
            if let Some(source) = self.source(command, option) {
                text = format!("{text} ({source} sets --{long})");
            }
        }
        text
    }

    /// The options that apply to the subcommand, with the commands that define them.
    fn options(&self) -> impl Iterator<Item = (&Command, &Arg)> {
        let of = |command| Command::get_arguments(command).map(move |option| (command, option));
        let own = self.subcommand().into_iter().flat_map(of).filter(|(_, option)| !option.is_global_set());
        own.chain(of(self.command)).filter(|(_, option)| settable(option))
    }

    /// The source of the value of the option that clap shows, or the option itself if the command line sets it.
    fn source_or(&self, shown: &str) -> String {
        let found = self.options().find(|(_, option)| option.to_string() == shown);
        found.and_then(|(command, option)| self.source(command, option)).unwrap_or_else(|| shown.to_owned())
    }

    /// The source of an option's value; `None` if it is the command line or the default.
    fn source(&self, command: &Command, option: &Arg) -> Option<String> {
        let long = option.get_long()?;
        if self.is_on_the_command_line(long) {
            return None;
        }
        let table = if option.is_global_set() { "" } else { command.get_name() };
        variable(option).or_else(|| self.file.key(table, long))
    }

    fn is_on_the_command_line(&self, long: &str) -> bool {
        let mut options = self.arguments.iter().take_while(|argument| *argument != "--");
        options.any(|argument| {
            let option = argument.to_str().and_then(|argument| argument.strip_prefix("--"));
            option.is_some_and(|option| option.split('=').next() == Some(long))
        })
    }
}

/// The environment variable of an option, if it is set.
fn variable(option: &Arg) -> Option<String> {
    let name = option.get_env().filter(|name| std::env::var_os(name).is_some())?;
    Some(name.to_string_lossy().into_owned())
}

/// Replaces the standard library's reason why a text is not an integer ("invalid digit found in string").
fn with_remedy_for_numbers(error: Error, command: &Command) -> Error {
    let number = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ParseIntError>());
    let Some(remedy) = number.map(|number| match number.kind() {
        IntErrorKind::PosOverflow => "give a smaller number",
        _ => "give a whole number, 0 or more",
    }) else {
        return error;
    };
    let mut better = Error::new(ErrorKind::InvalidValue).with_cmd(command);
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue] {
        if let Some(value) = error.get(kind) {
            better.insert(kind, value.clone());
        }
    }
    better.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![StyledStr::from(remedy)]));
    better
}
