//! Connecting to one memory node, and blocking requests to it. Every wait has a limit.

use super::credentials::Credentials;
use super::error::ConnectError;
use super::host_port::HostPort;
use crate::error::CLOSED;
use crate::fork::OwnDescriptor;
use crate::stream::{Cipher, Nonces, Prover, Stream, Token, connect, nonce, receive_exact, send_all};
use crate::wire::{
    Code, Control, Frame, FrameKind, GreetingError, HEADER_BYTES, Hello, VERSION, Welcome, nonce_of,
    put_frame, put_words,
};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Longest answer to a greeting or a control: a text of 1000 bytes.
const ANSWER_BYTES_MAX: usize = 2 << 10;

/// A memory node that has not answered completely within this time is lost.
pub(crate) const ANSWER_MAX: Duration = Duration::from_secs(5);

const NOT_FARWOOD: &str = "its answer is not that of a memory node";

/// A connection that the memory node accepted. Its stream does not block.
#[derive(Debug)]
pub(crate) struct AcceptedConnection {
    pub(crate) stream: Stream,
    pub(crate) welcome: Welcome,
}

/// Connects, and sends `hello`, with a nonce if there is a token. TLS and all frames of the greeting together have
/// [`ANSWER_MAX`].
pub(crate) fn dial(
    address: &HostPort,
    credentials: &Credentials,
    hello: &Hello,
) -> Result<AcceptedConnection, ConnectError> {
    let tcp = connect((address.host(), address.port())).map_err(|error| lost(&error))?;
    tcp.set_nonblocking(true).map_err(|error| lost(&error))?;
    let cipher = credentials.tls.as_ref().map_or(Ok(Cipher::default()), |tls| tls.cipher(address.host()));
    let mut stream =
        Stream { tcp: OwnDescriptor::new(tcp), cipher: cipher.map_err(ConnectError::Untrusted)? };
    let is_first = hello.pool == 0;
    let welcome = greet(&mut stream, credentials.token.as_ref(), hello)
        .map_err(|why| if is_first { greeted(why, &stream) } else { why })?;
    Ok(AcceptedConnection { stream, welcome })
}

/// Greets the memory node. If there is a token, both sides prove that they know it.
fn greet(stream: &mut Stream, token: Option<&Token>, hello: &Hello) -> Result<Welcome, ConnectError> {
    let end = Instant::now() + ANSWER_MAX;
    let nonce = token.map(|_| nonce()).transpose().map_err(ConnectError::Local)?;
    let mut bytes = Vec::new();
    Hello { nonce, ..hello.clone() }.put(&mut bytes);
    let mut answer = exchange(stream, &bytes, end)?;
    let mut expected = None;
    let frame = whole(&answer);
    if frame.kind == FrameKind::Challenge
        && let (Some(token), Some(compute_node)) = (token, nonce)
    {
        let memory_node = nonce_of(&frame).map_err(|malformed| ConnectError::Lost(malformed.to_string()))?;
        let nonces = Nonces { compute_node, memory_node };
        expected = Some(nonces);
        bytes.clear();
        put_frame(&mut bytes, FrameKind::Proof, 0, 0, 0, &token.prove(Prover::ComputeNode, &nonces));
        answer = exchange(stream, &bytes, end)?;
    }
    let welcome = read_welcome(&whole(&answer))?;
    match (token, expected) {
        (None, _) => Ok(welcome),
        // With TLS, the certificate has proven the identity of the memory node.
        (Some(_), None) if stream.cipher.is_on() => Ok(welcome),
        (Some(_), None) => Err(ConnectError::Unproven("it requires no token".to_owned())),
        (Some(token), Some(nonces)) if token.verifies(Prover::MemoryNode, &nonces, &welcome.proof) => {
            Ok(welcome)
        }
        (Some(_), Some(_)) => Err(ConnectError::Unproven("its proof is wrong".to_owned())),
    }
}

fn read_welcome(frame: &Frame<'_>) -> Result<Welcome, ConnectError> {
    if frame.kind != FrameKind::Welcome {
        return Err(ConnectError::Lost(NOT_FARWOOD.to_owned()));
    }
    Welcome::read(frame).map_err(|greeting| match greeting {
        GreetingError::Version(version) => ConnectError::Lost(format!(
            "it speaks version {version} of the protocol, and this program {VERSION}; use the same version on both \
             sides"
        )),
        GreetingError::Malformed(malformed) => ConnectError::Lost(malformed.to_string()),
    })
}

/// Sends a control and waits for its answer, for [`ANSWER_MAX`] in all.
pub(crate) fn control(
    stream: &mut Stream,
    control: Control,
    words: [u64; 4],
) -> Result<[u64; 4], ConnectError> {
    control_within(stream, control, words, ANSWER_MAX)
}

/// As [`control`], with another limit.
pub(crate) fn control_within(
    stream: &mut Stream,
    control: Control,
    words: [u64; 4],
    limit: Duration,
) -> Result<[u64; 4], ConnectError> {
    let mut bytes = Vec::new();
    put_words(&mut bytes, FrameKind::Control, control as u8, 0, words);
    let answer = exchange(stream, &bytes, Instant::now() + limit)?;
    let frame = whole(&answer);
    match Code::from_byte(frame.code) {
        Some(code) => Err(ConnectError::Refused(code, frame.text())),
        None => frame.words().map_err(|malformed| ConnectError::Lost(malformed.to_string())),
    }
}

/// Sends a frame and waits for the next one, until `end`; a refusal or a goodbye is an error.
fn exchange(stream: &mut Stream, bytes: &[u8], end: Instant) -> Result<Vec<u8>, ConnectError> {
    send_all(stream, bytes, end).map_err(|error| lost(&error))?;
    let mut answer = vec![0; HEADER_BYTES];
    receive_exact(stream, &mut answer, end).map_err(|error| lost(&error))?;
    let length = Frame::announced(&answer);
    if !(HEADER_BYTES..=ANSWER_BYTES_MAX).contains(&length) {
        return Err(ConnectError::Lost(NOT_FARWOOD.to_owned()));
    }
    answer.resize(length, 0);
    receive_exact(stream, &mut answer[HEADER_BYTES..], end).map_err(|error| lost(&error))?;
    match Frame::first(&answer) {
        Ok(Some(frame)) if matches!(frame.kind, FrameKind::Refused | FrameKind::Goodbye) => {
            let code = Code::from_byte(frame.code).unwrap_or(Code::Malformed);
            Err(ConnectError::Refused(code, frame.text()))
        }
        Ok(Some(_)) => Ok(answer),
        Ok(None) => Err(ConnectError::Lost(NOT_FARWOOD.to_owned())),
        Err(malformed) => Err(ConnectError::Lost(malformed.to_string())),
    }
}

fn whole(answer: &[u8]) -> Frame<'_> {
    Frame::first(answer).ok().flatten().expect("`exchange` yields whole frames")
}

/// Adds a likely cause to the error of a failed greeting: the memory node uses TLS and this client does not.
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
