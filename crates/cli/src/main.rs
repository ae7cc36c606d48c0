//! The `farwood` command: one file per command, each a `struct Args` for clap and a `run`.
//!
//! Every command is `run(args, context) -> Result<Outcome, Failure>`. Results go to [`Context::out`], messages to
//! [`Context::messages`]; a failed write is passed up with `?`. [`Outcome`] and [`Failure`] determine the exit code;
//! `docs/cli.md` and `--help` have the table.
//!
//! The environment (`FARWOOD_<COMMAND>_<OPTION>`) and the configuration file can set every option that has a long name:
//! `config` implements that for all commands.
#![forbid(unsafe_code)]

mod access;
mod backup;
mod bench;
mod card;
mod chart;
mod check;
mod config;
mod context;
mod create;
mod demo;
mod doctor;
mod drop;
mod dump;
mod entry;
mod failure;
mod grow;
mod heap;
mod incr;
mod item;
mod join;
mod json_object;
mod load;
mod lock_width;
mod log;
mod messages;
mod metrics;
mod new_index;
mod nic;
mod out_folder;
mod parser_error;
mod record;
mod reproduce;
mod restore;
mod save;
mod scan;
mod search;
mod serve;
mod show;
mod size;
mod smart_options;
mod source;
mod sphinx_options;
mod stat;
mod sweep;
mod text_table;
mod timeout;
mod top;
mod trace;
mod tsv;
mod value_list;
mod worker;

pub(crate) use context::{
    Context, Format, Opened, Untyped, index_of, open_any, read, refuse_search_parameters, warn_of_locks,
};
pub(crate) use failure::{Failure, Outcome};

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _, Parser, Subcommand};
use farwood::{Error, Url};
use messages::Messages;
use show::Numbers;
use source::Sources;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;
use std::sync::Arc;

/// The exit codes, as `--help` shows them. `docs/cli.md` and `farwood::Error::exit_code` agree.
const EXIT_CODES: &str = "\
Exit codes:
   0  done
   1  the key was not found; its value does not meet the condition; search found nothing; check or doctor --strict found
      problems; every line of a load was bad
   2  the command line, the configuration or the input is wrong, or an input file is damaged
   3  no such pool or index
   4  the pool or index exists already
   5  full: the pool, its tables, or memory
   6  no permission
   7  wrong magic, version, format or type
   8  a pool or an index is damaged
   9  busy: the pool, the index or a lock is in use; the time of --timeout has passed
  10  another error of the operating system

A pool is named by a URL: shm://NAME is shared memory of this machine; tcp://HOST:PORT,HOST:PORT are memory nodes that \
`farwood serve` runs. An index is the URL of its pool and /INDEX. Every option can also be set by the environment \
variable FARWOOD_<COMMAND>_<OPTION> and in `farwood.toml`, in the current directory or in ~/.config/farwood; the table \
[pools] of that file defines short names: pool://NAME. Credentials for memory nodes over TCP are parameters of the URL \
(?token-file=FILE&tls-ca=FILE&tls-cert=FILE&tls-key=FILE&tls-name=NAME) or environment variables \
(FARWOOD_TOKEN_FILE, FARWOOD_TLS_CA, FARWOOD_TLS_CERT, FARWOOD_TLS_KEY, FARWOOD_TLS_NAME).";

/// Tree indexes for far memory.
#[derive(Debug, Parser)]
#[command(name = "farwood", version, about, after_help = EXIT_CODES, max_term_width = 100)]
#[command(arg_required_else_help = true, propagate_version = true)]
struct Cli {
    /// Print JSON on stdout
    #[arg(long, global = true, help_heading = "Options of all commands")]
    json: bool,
    /// Print JSON as --json does, with integers of 64 bits as strings, because many readers of JSON round numbers above
    /// 2^53
    #[arg(long, global = true, help_heading = "Options of all commands")]
    json_strings: bool,
    /// Read this configuration file instead of farwood.toml or ~/.config/farwood/farwood.toml
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "FARWOOD_CONFIG",
        help_heading = "Options of all commands"
    )]
    config: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The commands, in the order in which a new user needs them.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Serve(Box<serve::Args>),
    Create(create::Args),
    Grow(grow::Args),
    Drop(drop::Args),
    Put(entry::PutArgs),
    Get(entry::GetArgs),
    Del(entry::DelArgs),
    Incr(incr::Args),
    Scan(scan::Args),
    Search(Box<search::Args>),
    Join(join::Args),
    Load(load::Args),
    Dump(dump::Args),
    Restore(Box<restore::Args>),
    Save(save::Args),
    Check(check::Args),
    Stat(stat::Args),
    Top(top::Args),
    Bench(Box<bench::Args>),
    Reproduce(reproduce::Args),
    Sweep(sweep::Args),
    Chart(chart::Args),
    Trace(trace::Args),
    Nic(nic::Args),
    NewIndex(new_index::Args),
    Doctor(doctor::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}

fn main() -> ExitCode {
    // With a handler, a file that exceeds `ulimit -f` is an error; without one, the signal kills the process.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let mut out = BufWriter::new(io::stdout().lock());
    // Not locked: the thread of a progress bar and the panic handler write there, too.
    let mut messages = Messages(io::stderr());
    let done = run(std::env::args_os().collect(), &mut out, &mut messages);
    let flushed = out.flush();
    let code = match done.and_then(|outcome| flushed.map(|()| outcome).map_err(Failure::Output)) {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => match (failure.report(&mut messages), failure.is_answer()) {
            (Err(lost), true) => {
                let failure = Failure::Output(lost);
                let _ = failure.report(&mut messages);
                failure.exit_code()
            }
            // If stderr is closed as well, the message is lost.
            _ => failure.exit_code(),
        },
    };
    ExitCode::from(code)
}

fn run(arguments: Vec<OsString>, out: &mut dyn Write, messages: &mut dyn Write) -> Result<Outcome, Failure> {
    let command = with_plain_urls(<Cli as clap::CommandFactory>::command());
    let (mut parser, file) = config::configure(command, &arguments)?;
    let arguments = file.resolve(arguments)?;
    let matches = parser.try_get_matches_from_mut(&arguments).map_err(|error| {
        let sources = Sources { command: &parser, arguments: &arguments, file: &file };
        entry::refuse_help_as_data(&sources, &error).unwrap_or_else(|| sources.blame(error).into())
    })?;
    let cli = Cli::from_arg_matches(&matches)?;
    let format = if cli.json || cli.json_strings { Format::Json } else { Format::Text };
    let progress = io::stderr().is_terminal();
    let numbers = if cli.json_strings { Numbers::Strings } else { Numbers::Plain };
    let context = &mut Context { numbers, out, messages, format, progress, given: given(&matches) };
    warn_of_secrets(&matches, context)?;
    let command = matches.subcommand_name().unwrap_or_default();
    dispatch(cli.command, context).map_err(|failure| {
        let sources = Sources { command: &parser, arguments: &arguments, file: &file };
        failure.of_command(command).with_sources(&sources)
    })
}

/// Makes clap print only the reason why a URL is invalid, because clap prints the URL itself. Makes it pass negative
/// numbers to options, which refuse them with a reason, instead of advising `--`.
fn with_plain_urls(command: clap::Command) -> clap::Command {
    let plain = |argument: clap::Arg| match argument.get_id().as_str() {
        "url" | "other" => argument.value_parser(plain_url),
        _ if argument.get_long().is_some() && argument.get_action().takes_values() => {
            argument.allow_negative_numbers(true)
        }
        _ => argument,
    };
    command.mut_subcommands(|command| command.mut_args(plain))
}

fn plain_url(text: &str) -> Result<Url, String> {
    text.parse().map_err(|error: Error| {
        let text = error.to_string();
        match &error {
            Error::Url { url, .. } => text.strip_prefix(&format!("'{url}': ")).unwrap_or(&text).to_owned(),
            _ => text,
        }
    })
}

/// Warns about tokens and private keys of the URLs on the command line that all users of this machine can read.
fn warn_of_secrets(matches: &ArgMatches, context: &mut Context<'_>) -> io::Result<()> {
    let Some((_, matches)) = matches.subcommand() else { return Ok(()) };
    let urls_of = |id| matches.try_get_many::<Url>(id).ok().flatten().into_iter().flatten();
    let warnings: BTreeSet<_> =
        ["url", "other", "pools"].into_iter().flat_map(urls_of).flat_map(Url::secret_warnings).collect();
    for warning in warnings {
        writeln!(context.messages, "warning: {warning}")?;
    }
    Ok(())
}

/// The subcommand's options that are on the command line.
fn given(matches: &ArgMatches) -> Vec<String> {
    let Some((_, matches)) = matches.subcommand() else { return Vec::new() };
    let is_given = |id: &&clap::Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
    matches.ids().filter(is_given).map(|id| id.as_str().to_owned()).collect()
}

fn dispatch(command: Command, context: &mut Context<'_>) -> Result<Outcome, Failure> {
    match command {
        Command::Demo(args) => demo::run(&args, context),
        Command::Serve(args) => serve::run(&args, context),
        Command::Create(args) => create::run(&args, context),
        Command::Drop(args) => drop::run(&args, context),
        Command::Put(args) => entry::put(&args, context),
        Command::Get(args) => entry::get(&args, context),
        Command::Del(args) => entry::del(&args, context),
        Command::Incr(args) => incr::run(&args, context),
        Command::Scan(args) => scan::run(&args, context),
        Command::Search(args) => search::run(&args, context),
        Command::Join(args) => join::run(&args, context),
        Command::Load(args) => load::run(&args, context),
        Command::Dump(args) => dump::run(&args, context),
        Command::Restore(args) => restore::run(&args, context),
        Command::Save(args) => save::run(&args, context),
        Command::Grow(args) => grow::run(&args, context),
        Command::Check(args) => check::run(&args, context),
        Command::Stat(args) => stat::run(&args, context),
        Command::Top(args) => top::run(&args, context),
        Command::Bench(args) => bench::run(*args, context),
        Command::Reproduce(args) => reproduce::run(&args, context),
        Command::Sweep(args) => sweep::run(&args, context),
        Command::Chart(args) => chart::run(&args, context),
        Command::Trace(args) => trace::run(&args, context),
        Command::Nic(args) => nic::run(&args, context),
        Command::NewIndex(args) => new_index::run(&args, context),
        Command::Doctor(args) => doctor::run(&args, context),
        Command::Worker(args) => worker::run(args, context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }
}
