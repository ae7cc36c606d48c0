//! The secret by which compute nodes and memory nodes recognise each other. It is never sent: each side proves that it
//! knows it.
//!
//! ```text
//! compute node                                      memory node
//!   nonce C (random)                -------->
//!                                   <--------       nonce M (random)
//!   HMAC-SHA256(token, "compute node" C M)  ->
//!                                   <--------       HMAC-SHA256(token, "memory node" C M)
//! ```
//!
//! The compute node sends its proof first, so that a program that connects to a memory node receives no proof on which
//! it could test guesses of the token. A program to which a compute node connects receives the proof of the compute
//! node: it can test guesses of a token that is not random, and, without TLS, relay the proof to a memory node and use
//! that connection as its own. Only TLS proves which machine answers. Without TLS, a machine on the path can also read
//! and change the data.

use super::secret_file;
use crate::error::TcpError;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Minimum bytes of a token, because shorter tokens can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// Longest token, bytes.
const TOKEN_BYTES_MAX: usize = 1024;
/// Tokens that a memory node accepts at once: the old and the new one of a rotation.
const TOKENS_MAX: usize = 2;
/// Bytes of a nonce and of a proof.
pub const NONCE_BYTES: usize = 32;

/// Random bytes that are used once.
pub type Nonce = [u8; NONCE_BYTES];
/// The proof that its sender knows a token.
pub type Proof = [u8; NONCE_BYTES];

/// Returns a new nonce.
///
/// # Errors
/// An error if the system has no random bytes.
pub(crate) fn nonce() -> Result<Nonce, String> {
    let mut nonce = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut nonce).map_err(|_| "the system has no random bytes".to_owned())?;
    Ok(nonce)
}

/// The side that proves its knowledge of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prover {
    /// The side that connects.
    ComputeNode,
    /// The side that accepts.
    MemoryNode,
}

/// The nonces of a connection: that of the compute node, and that of the memory node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonces {
    /// The nonce of the compute node.
    pub compute_node: Nonce,
    /// The nonce of the memory node.
    pub memory_node: Nonce,
}

impl Nonces {
    /// Returns the bytes that `prover` authenticates.
    fn message(&self, prover: Prover) -> Vec<u8> {
        let label = match prover {
            Prover::ComputeNode => &b"farwood compute node"[..],
            Prover::MemoryNode => b"farwood memory node",
        };
        [label, &self.compute_node, &self.memory_node].concat()
    }
}

/// A secret that memory nodes and compute nodes share. It is never printed. The time of a comparison depends only on
/// the length of the token.
#[derive(Clone)]
pub struct Token(hmac::Key);

impl Token {
    /// Reads the first line of a file.
    ///
    /// # Errors
    /// [`TcpError::Token`].
    pub fn from_file(path: &Path) -> Result<Self, TcpError> {
        let mut tokens = tokens_of(path)?;
        Ok(tokens.swap_remove(0))
    }

    /// Creates a token from text.
    ///
    /// # Errors
    /// The text is too short or too long.
    pub fn new(text: &str) -> Result<Self, String> {
        if (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len()) {
            return Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, text.as_bytes())));
        }
        Err(format!("a line of it has {} characters", text.len()))
    }

    /// Returns the proof of `prover` that it knows this token.
    pub fn prove(&self, prover: Prover, nonces: &Nonces) -> Proof {
        let tag = hmac::sign(&self.0, &nonces.message(prover));
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// Returns whether `proof` is that of `prover`, in constant time.
    pub fn verifies(&self, prover: Prover, nonces: &Nonces, proof: &[u8]) -> bool {
        hmac::verify(&self.0, &nonces.message(prover), proof).is_ok()
    }
}

/// Reads the tokens of a file, one in each line.
fn tokens_of(path: &Path) -> Result<Vec<Token>, TcpError> {
    let refuse = |why: String| TcpError::Token { path: path.to_owned(), why };
    let bytes = secret_file::read(path).map_err(refuse)?;
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not text".to_owned()))?;
    let lines: Vec<_> = text.trim_end().lines().map(str::trim).collect();
    if lines.len() > TOKENS_MAX {
        return Err(refuse(format!("it has {} lines", lines.len())));
    }
    // An empty file has one token, of no characters.
    let first = lines.first().copied().unwrap_or_default();
    std::iter::once(first)
        .chain(lines.into_iter().skip(1))
        .map(|line| Token::new(line).map_err(refuse))
        .collect()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The tokens that a memory node accepts: one, or two during a rotation. Clones share them.
#[derive(Clone, Debug)]
pub struct AcceptedTokens(Arc<RwLock<Vec<Token>>>);

impl AcceptedTokens {
    /// Reads the lines of a file.
    ///
    /// # Errors
    /// [`TcpError::Token`].
    pub fn from_file(path: &Path) -> Result<Self, TcpError> {
        Ok(Self(Arc::new(RwLock::new(tokens_of(path)?))))
    }

    /// Accepts the tokens of `path` instead, from the next connection on. If that fails, these remain.
    ///
    /// # Errors
    /// [`TcpError::Token`].
    pub fn reload(&self, path: &Path) -> Result<(), TcpError> {
        self.reload_apart_from(path, None)
    }

    /// As [`reload`](Self::reload); also refuses a token that is one of `others`, which permit something else.
    ///
    /// # Errors
    /// As [`reload`](Self::reload).
    pub fn reload_apart_from(&self, path: &Path, others: Option<&Self>) -> Result<(), TcpError> {
        let tokens = tokens_of(path)?;
        let is_among = |others: &Self| others.overlaps(&Self(Arc::new(RwLock::new(tokens.clone()))));
        if others.is_some_and(is_among) {
            let why = "a token of it is also in the file of the tokens with other rights".to_owned();
            return Err(TcpError::Token { path: path.to_owned(), why });
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
    }

    /// Returns the memory node's own proof, if `proof` is that of a compute node with one of these tokens. Tries all of
    /// them: the duration depends on their number, and not on the one that matches.
    pub(crate) fn answer(&self, nonces: &Nonces, proof: &[u8]) -> Option<Proof> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let answers = tokens.iter().map(|token| {
            let answer = token.prove(Prover::MemoryNode, nonces);
            token.verifies(Prover::ComputeNode, nonces, proof).then_some(answer)
        });
        answers.fold(None, Option::or)
    }

    /// Returns whether one of these tokens is also one of `others`.
    pub(crate) fn overlaps(&self, others: &Self) -> bool {
        const ANY: Nonces = Nonces { compute_node: [0; NONCE_BYTES], memory_node: [0; NONCE_BYTES] };
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tokens.iter().any(|token| others.answer(&ANY, &token.prove(Prover::ComputeNode, &ANY)).is_some())
    }
}

impl From<Token> for AcceptedTokens {
    fn from(token: Token) -> Self {
        Self(Arc::new(RwLock::new(vec![token])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const NONCES: Nonces = Nonces { compute_node: [1; 32], memory_node: [2; 32] };

    #[test]
    fn a_proof_is_of_one_token_one_side_and_one_connection() {
        let token = Token::new("0123456789abcdef").unwrap();
        let proof = token.prove(Prover::ComputeNode, &NONCES);
        assert!(token.verifies(Prover::ComputeNode, &NONCES, &proof));
        assert!(!token.verifies(Prover::MemoryNode, &NONCES, &proof), "it is not returned to its sender");
        assert!(!token.verifies(Prover::ComputeNode, &Nonces { memory_node: [3; 32], ..NONCES }, &proof));
        assert!(!token.verifies(Prover::ComputeNode, &Nonces { compute_node: [3; 32], ..NONCES }, &proof));
        assert!(!token.verifies(Prover::ComputeNode, &NONCES, &proof[..31]));
        assert!(!Token::new("0123456789abcdeF").unwrap().verifies(Prover::ComputeNode, &NONCES, &proof));
        assert!(!format!("{token:?}").contains("0123"));
        assert_ne!(nonce().unwrap(), nonce().unwrap());
    }

    #[test]
    fn an_invalid_token_is_refused() {
        assert!(Token::new("short").unwrap_err().contains("5 characters"));
        assert!(Token::new(&"x".repeat(TOKEN_BYTES_MAX + 1)).is_err());
        let error = Token::from_file(Path::new("/nonexistent/token")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/token"), "{error}");
    }

    #[test]
    fn tokens_with_different_rights_differ() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let write = |text: &str| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        write("a-token-for-everything\n");
        let all = AcceptedTokens::from_file(&path).unwrap();
        write("a-token-for-reading-only\nanother-one-for-reading\n");
        let read = AcceptedTokens::from_file(&path).unwrap();
        assert!(!all.overlaps(&read) && all.overlaps(&all.clone()));
        read.reload_apart_from(&path, Some(&all)).unwrap();
        write("a-token-for-reading-only\na-token-for-everything\n");
        let error = read.reload_apart_from(&path, Some(&all)).unwrap_err();
        assert!(error.to_string().contains("other rights"), "{error}");
        assert!(!all.overlaps(&read), "the tokens of before remain");
    }

    #[test]
    fn both_tokens_of_a_rotation_are_accepted_until_the_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let [old, new] = ["an-old-token-of-24-chars", "a-new-token-of-24-chars!"];
        std::fs::write(&path, format!("{old}\n{new}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let accepted = AcceptedTokens::from_file(&path).unwrap();
        let is_accepted = |text: &str| {
            let proof = Token::new(text).unwrap().prove(Prover::ComputeNode, &NONCES);
            accepted.answer(&NONCES, &proof).is_some()
        };
        assert_eq!([old, new, "another-token-of-24-char"].map(is_accepted), [true, true, false]);
        std::fs::write(&path, "short\n").unwrap();
        assert!(accepted.reload(&path).is_err() && is_accepted(old));
        std::fs::write(&path, format!("{new}\n")).unwrap();
        accepted.reload(&path).unwrap();
        assert_eq!([old, new].map(is_accepted), [false, true]);
        std::fs::write(&path, format!("{old}\n{new}\n{new}\n")).unwrap();
        assert!(accepted.reload(&path).unwrap_err().to_string().contains("3 lines"));
    }
}
