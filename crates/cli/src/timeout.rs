//! The option `--timeout`: a limit for each step of a command that uses an index of keys.
//!
//! The library limits the operations of an index. It does not limit the opening and the closing of the pool and the
//! index, which wait for a memory node that does not answer. So another thread opens and closes them. If the limit
//! passes first, the process ends, and the thread with it. Other clients then free the locks and the slot of this
//! client, as those of a client that has crashed.

use crate::context::{open_silently, warn_of_locks};
use crate::{Context, Failure, Opened, Untyped};
use farwood::{Access, Error, Url};
use std::io;
use std::ops::Deref;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The longest time for which a command waits at its end until the index is closed.
const CLOSING_MAX: Duration = Duration::from_secs(1);
/// The greatest limit, in seconds.
const SECONDS_MAX: f64 = 1e9;

/// The option `--timeout`.
#[derive(Debug, clap::Args)]
pub(crate) struct TimeoutArgs {
    /// End with exit code 9 if opening the index, or an operation on it, takes longer than this. In a scan, an
    /// operation is the fetch of up to 4096 entries. Without the option, a command waits up to 20 s for a lock, and up
    /// to 20 s for a memory node that does not answer
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
}

/// Reads a limit. For clap's `value_parser`.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().map_err(|_| "give seconds, such as 2 or 0.5".to_owned())?;
    if !(0.001..=SECONDS_MAX).contains(&seconds) {
        return Err("give 0.001 to 1e9 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// An open index whose operations, and whose closing, end after a limit.
pub(crate) struct Limited {
    /// The index, until it is closed.
    index: Option<Untyped>,
    limit: Option<Duration>,
}

impl TimeoutArgs {
    /// Opens the index named on the command line, with the limit.
    ///
    /// # Errors
    /// [`Error::TimedOut`]; a spatial index is refused if the option is on the command line.
    pub(crate) fn open(
        &self,
        command: &'static str,
        url: &Url,
        access: Access,
        context: &mut Context<'_>,
    ) -> Result<Opened<Limited>, Failure> {
        match self.open_within(url, access)? {
            Opened::Spatial(_) if context.is_given("timeout") => Err(Failure::Usage(format!(
                "{command} {url}: --timeout applies to keys, and this is a spatial index; omit it"
            ))),
            Opened::Spatial(index) => Ok(Opened::Spatial(index)),
            Opened::Ordered(index) => {
                warn_of_locks(&index, context)?;
                Ok(Opened::Ordered(index))
            }
        }
    }

    fn open_within(&self, url: &Url, access: Access) -> Result<Opened<Limited>, Failure> {
        let opened = match self.timeout {
            None => open_silently(url, access)?,
            Some(limit) => {
                let own = url.clone();
                let thread = |source| Error::Thread { operation: "open", pool: url.to_string(), source };
                let opened = within(limit, move || open_silently(&own, access)).map_err(thread)?;
                let late = || Error::TimedOut { operation: "open", url: url.to_string(), after: limit };
                opened.ok_or_else(late)??
            }
        };
        Ok(match opened {
            Opened::Spatial(index) => Opened::Spatial(index),
            Opened::Ordered(index) => {
                let index = match self.timeout {
                    Some(limit) => index.with_timeout(limit),
                    None => index,
                };
                Opened::Ordered(Limited { index: Some(index), limit: self.timeout })
            }
        })
    }
}

/// Runs `work` on another thread; `None`: it does not end within the limit.
///
/// # Errors
/// The thread cannot be started.
fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Option<T>> {
    let (done, result) = channel();
    thread::Builder::new().spawn(move || done.send(work()))?;
    match result.recv_timeout(limit) {
        Ok(result) => Ok(Some(result)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => panic!("the thread has panicked"),
    }
}

impl Deref for Limited {
    type Target = Untyped;

    fn deref(&self) -> &Untyped {
        self.index.as_ref().expect("only the destructor takes the index")
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let (Some(index), Some(limit)) = (self.index.take(), self.limit) {
            // Without a thread, the index is closed here.
            let _ = within(limit.min(CLOSING_MAX), move || drop(index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_positive_and_finite() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "inf", "NaN", "1e10", "2s", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn work_that_takes_longer_than_the_limit_yields_nothing() {
        assert_eq!(within(Duration::from_mins(1), || 7).unwrap(), Some(7));
        let (_open, closed) = channel::<()>();
        assert_eq!(within(Duration::from_millis(10), move || closed.recv()).unwrap(), None);
    }
}
