//! The `farwood` command: one file per command, each a `struct Args` for clap and a `run`.
//!
//! Every command is `run(args, context) -> Result<Outcome, Failure>`. Data goes to [`Context::out`], words to
//! [`Context::words`]; a write that fails is passed up with `?`. The exit code comes from [`Outcome`] and
//! [`Failure`]; the table is in `docs/cli.md` and in `--help`.
//!
//! Every option with a long name can also be set by the environment, `FARWOOD_<COMMAND>_<OPTION>`, and by the
//! configuration file: `config` arranges that for all commands alike, so none has to.
#![forbid(unsafe_code)]

mod bench;
mod card;
mod check;
mod config;
mod context;
mod create;
mod demo;
mod doctor;
mod drop;
mod entry;
mod failure;
mod heap;
mod item;
mod load;
mod lock_width;
mod log;
mod metrics;
mod reproduce;
mod scan;
mod search;
mod serve;
mod show;
mod size;
mod stat;
mod top;
mod worker;

pub(crate) use context::{Context, Format, Opened, Untyped, index_of, open, open_any, read, warn_of_locks};
pub(crate) use failure::{Failure, Outcome};

use clap::parser::ValueSource;
use clap::{ArgMatches, FromArgMatches as _, Parser, Subcommand};
use farwood::{Error, Url};
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

/// What the exit codes mean, as `--help` shows it. `docs/cli.md` and `farwood::Error::exit_code` agree.
const EXIT_CODES: &str = "\
Exit codes:
   0  done
   1  the key was not there; check found problems; all lines of a load were bad
   2  the command line, the configuration or the input is wrong
   3  no such pool or index
   4  it exists already
   5  full: the pool, its tables, or memory
   6  no permission
   7  wrong magic, version, format or type
   8  damaged
   9  busy: in use, or a lock is held
  10  another error of the operating system

Pools are URLs: shm://NAME in this machine's shared memory, tcp://HOST:PORT,HOST:PORT where `farwood serve` runs; \
indexes have /INDEX behind it. Options can also be set by FARWOOD_<COMMAND>_<OPTION> in the environment and by \
`farwood.toml`, in this folder or in ~/.config/farwood, whose table [pools] may give pools a short name: \
pool://NAME. What memory nodes over TCP ask for is named in their URL (?token-file=FILE&tls-ca=FILE&tls-cert=FILE\
&tls-key=FILE&tls-name=NAME) or in the environment: FARWOOD_TOKEN_FILE, FARWOOD_TLS_CA and so on.";

/// Tree indexes for far memory.
#[derive(Debug, Parser)]
#[command(name = "farwood", version, about, after_help = EXIT_CODES, max_term_width = 100)]
#[command(arg_required_else_help = true, propagate_version = true)]
struct Cli {
    /// Print JSON on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Read this configuration file instead of farwood.toml or ~/.config/farwood/farwood.toml
    #[arg(long, global = true, value_name = "FILE", env = "FARWOOD_CONFIG")]
    config: Option<std::path::PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The commands, in the order in which people meet them.
#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Serve(Box<serve::Args>),
    Create(create::Args),
    Drop(drop::Args),
    Put(entry::PutArgs),
    Get(entry::GetArgs),
    Del(entry::DelArgs),
    Scan(scan::Args),
    Search(search::Args),
    Load(load::Args),
    Check(check::Args),
    Stat(stat::Args),
    Top(top::Args),
    Bench(Box<bench::Args>),
    Reproduce(reproduce::Args),
    Doctor(doctor::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}

fn main() -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    // Not locked: a progress bar has a thread of its own that writes there, and so has whoever panics.
    let mut words = io::stderr();
    let done = run(std::env::args_os().collect(), &mut out, &mut words);
    let flushed = out.flush();
    let code = match done.and_then(|outcome| flushed.map(|()| outcome).map_err(Failure::Output)) {
        Ok(outcome) => outcome.exit_code(),
        Err(failure) => {
            // There is nobody left to tell if stderr is closed as well.
            let _ = failure.report(&mut words);
            failure.exit_code()
        }
    };
    ExitCode::from(code)
}

fn run(arguments: Vec<OsString>, out: &mut dyn Write, words: &mut dyn Write) -> Result<Outcome, Failure> {
    let command = with_plain_urls(<Cli as clap::CommandFactory>::command());
    let (command, pools) = config::configure(command, &arguments)?;
    let arguments = pools.resolve(arguments)?;
    let matches = command.try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    let format = if cli.json { Format::Json } else { Format::Text };
    let progress = io::stderr().is_terminal();
    dispatch(cli.command, &mut Context { out, words, format, progress, given: given(&matches) })
}

/// Makes clap, which names the value itself, say only what is wrong with a URL.
fn with_plain_urls(command: clap::Command) -> clap::Command {
    let plain = |argument: clap::Arg| match argument.get_id().as_str() {
        "url" => argument.value_parser(plain_url),
        _ => argument,
    };
    command.mut_subcommands(|command| command.mut_args(plain))
}

fn plain_url(text: &str) -> Result<Url, String> {
    text.parse().map_err(|error: Error| {
        let text = error.to_string();
        match &error {
            Error::Url { url, .. } | Error::NotBuilt { url, .. } => {
                text.strip_prefix(&format!("'{url}': ")).unwrap_or(&text).to_owned()
            }
            _ => text,
        }
    })
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
        Command::Scan(args) => scan::run(&args, context),
        Command::Search(args) => search::run(&args, context),
        Command::Load(args) => load::run(&args, context),
        Command::Check(args) => check::run(&args, context),
        Command::Stat(args) => stat::run(&args, context),
        Command::Top(args) => top::run(&args, context),
        Command::Bench(args) => bench::run(*args, context),
        Command::Reproduce(args) => reproduce::run(&args, context),
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
