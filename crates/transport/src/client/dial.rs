//! Connecting to one memory node, and blocking requests to it. Every wait has a limit.

use super::credentials::Credentials;
use super::error::ConnectError;
use crate::error::CLOSED;
use crate::stream::{Cipher, Stream, connect};
use crate::wire::{
    Code, Control, FRAME_BYTES_MAX, Frame, FrameKind, GreetingError, HEADER_BYTES, Hello, VERSION, Welcome,
    put_words,
};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// A memory node that does not answer within this time is lost.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A connection that the memory node accepted.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) stream: Stream,
    pub(crate) welcome: Welcome,
}

/// Connects, and sends `hello`.
pub(crate) fn dial(
    address: &str,
    credentials: &Credentials,
    hello: &Hello,
) -> Result<AcceptedConnection, ConnectError> {
    let tcp = connect(address).map_err(|error| lost(&error))?;
    limit(&tcp).map_err(|error| lost(&error))?;
    let cipher = credentials.tls.as_ref().map_or(Ok(Cipher::default()), |tls| tls.cipher(address));
    let mut stream = Stream { tcp, cipher: cipher.map_err(ConnectError::Untrusted)? };
    let mut bytes = Vec::new();
    hello.put(&mut bytes);
    let answer = exchange(&mut stream, &bytes)
        .map_err(|why| if hello.pool == 0 { greeted(why, &stream) } else { why })?;
    let frame = whole(&answer);
    if frame.kind != FrameKind::Welcome {
        return Err(ConnectError::Lost("its answer is not that of a memory node".to_owned()));
    }
    let welcome = Welcome::read(&frame).map_err(|greeting| match greeting {
        GreetingError::Version(version) => {
            ConnectError::Lost(format!(
                "it speaks version {version} of the protocol, and this program {VERSION}; use the same version on both \
                 sides"
            ))
        }
        GreetingError::Malformed(malformed) => ConnectError::Lost(malformed.to_string()),
    })?;
    Ok(AcceptedConnection { stream, welcome })
}

/// Sends a control and waits for its answer.
pub(crate) fn control(
    stream: &mut Stream,
    control: Control,
    words: [u64; 4],
) -> Result<[u64; 4], ConnectError> {
    let mut bytes = Vec::new();
    put_words(&mut bytes, FrameKind::Control, control as u8, 0, words);
    let answer = exchange(stream, &bytes)?;
    let frame = whole(&answer);
    match Code::from_byte(frame.code) {
        Some(code) => Err(ConnectError::Refused(code, frame.text())),
        None => frame.words().map_err(|malformed| ConnectError::Lost(malformed.to_string())),
    }
}

/// Limits how long a request on the stream may wait.
fn limit(stream: &TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.set_write_timeout(Some(ANSWER_MAX))
}

/// Sends a frame and waits for the next one; a refusal or a goodbye is an error.
fn exchange(stream: &mut Stream, bytes: &[u8]) -> Result<Vec<u8>, ConnectError> {
    stream.write_all(bytes).map_err(|error| lost(&error))?;
    let mut answer = vec![0; HEADER_BYTES];
    stream.read_exact(&mut answer).map_err(|error| lost(&error))?;
    let length = Frame::announced(&answer);
    if !(HEADER_BYTES..=FRAME_BYTES_MAX).contains(&length) {
        return Err(ConnectError::Lost("its answer is not that of a memory node".to_owned()));
    }
    answer.resize(length, 0);
    stream.read_exact(&mut answer[HEADER_BYTES..]).map_err(|error| lost(&error))?;
    match Frame::first(&answer) {
        Ok(Some(frame)) if matches!(frame.kind, FrameKind::Refused | FrameKind::Goodbye) => {
            let code = Code::from_byte(frame.code).unwrap_or(Code::Malformed);
            Err(ConnectError::Refused(code, frame.text()))
        }
        Ok(Some(_)) => Ok(answer),
        Ok(None) => Err(ConnectError::Lost("its answer is not that of a memory node".to_owned())),
        Err(malformed) => Err(ConnectError::Lost(malformed.to_string())),
    }
}

fn whole(answer: &[u8]) -> Frame<'_> {
    Frame::first(answer).ok().flatten().expect("`exchange` yields whole frames")
}

/// Adds the other likely cause of a failed greeting, for a memory node that was not known before.
fn greeted(why: ConnectError, stream: &Stream) -> ConnectError {
    match why {
        ConnectError::Lost(why) if why == CLOSED && !stream.cipher.is_on() => {
            ConnectError::Lost(format!("{why}; if it speaks TLS, name its authority in FARWOOD_TLS_CA"))
        }
        why => why,
    }
}

fn lost(error: &io::Error) -> ConnectError {
    if error.kind() == ErrorKind::InvalidData {
        return ConnectError::Untrusted(error.to_string());
    }
    ConnectError::Lost(match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => CLOSED.to_owned(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it does not answer in time".to_owned(),
        _ => error.to_string(),
    })
}
