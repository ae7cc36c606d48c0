//! The greeting of a connection: both sides prove that they know the token, if there is one.

use super::{HEAD_BYTES, push_frame};
use crate::stream::{
    AcceptedTokens, NONCE_BYTES, Nonce, Nonces, Proof, Prover, Token, nonce, receive_exact, send_all,
};
use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A greeting that takes longer ends the connection, on either side.
pub(super) const GREETING_MAX: Duration = Duration::from_secs(10);

/// Greets the server. Without a token this waits for nothing.
pub(super) fn greet_server(mut stream: &TcpStream, token: Option<&Token>) -> io::Result<()> {
    let end = Instant::now() + GREETING_MAX;
    let Some(token) = token else { return send_all(&mut stream, &framed(&[]), end) };
    let compute_node = nonce().map_err(io::Error::other)?;
    send_all(&mut stream, &framed(&compute_node), end)?;
    let Some(memory_node) = receive(stream, end)? else {
        return Err(refused("the server requires no token, so it cannot prove that it knows this one"));
    };
    let nonces = Nonces { compute_node, memory_node };
    send_all(&mut stream, &framed(&token.prove(Prover::ComputeNode, &nonces)), end)?;
    let proof = receive(stream, end).map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => refused("the server refuses the token"),
        _ => error,
    })?;
    let proof = proof.unwrap_or_default();
    if token.verifies(Prover::MemoryNode, &nonces, &proof) {
        return Ok(());
    }
    Err(refused("the server does not know the token"))
}

/// Greets a client, which must prove one of `tokens`.
pub(super) fn greet_client(mut stream: &TcpStream, tokens: Option<&AcceptedTokens>) -> io::Result<()> {
    let end = Instant::now() + GREETING_MAX;
    match (receive(stream, end)?, tokens) {
        (None, None) => Ok(()),
        (Some(_), None) => send_all(&mut stream, &framed(&[]), end),
        (None, Some(_)) => Err(refused("the client has no token")),
        (Some(compute_node), Some(tokens)) => {
            let nonces = Nonces { compute_node, memory_node: nonce().map_err(io::Error::other)? };
            send_all(&mut stream, &framed(&nonces.memory_node), end)?;
            let proof: Proof = receive(stream, end)?.unwrap_or_default();
            let answer = tokens.answer(&nonces, &proof);
            let answer = answer.ok_or_else(|| refused("the client has another token"))?;
            send_all(&mut stream, &framed(&answer), end)
        }
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, why)
}

/// Returns a frame with these bytes.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let (words, _) = bytes.as_chunks();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let mut frame = Vec::new();
    push_frame(&mut frame, &words);
    frame
}

/// Receives the bytes of a nonce or a proof; `None`: the frame is empty.
fn receive(mut stream: &TcpStream, end: Instant) -> io::Result<Option<Nonce>> {
    const WORDS: u64 = NONCE_BYTES as u64 / 8;
    let mut head = [0; HEAD_BYTES];
    receive_exact(&mut stream, &mut head, end)?;
    match u64::from_le_bytes(head) {
        0 => Ok(None),
        WORDS => {
            let mut nonce = [0; NONCE_BYTES];
            receive_exact(&mut stream, &mut nonce, end)?;
            Ok(Some(nonce))
        }
        words => Err(io::Error::new(ErrorKind::InvalidData, format!("a greeting of {words} words"))),
    }
}
