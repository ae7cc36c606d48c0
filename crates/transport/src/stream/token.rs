//! The secret that authenticates compute nodes.

use crate::error::TcpError;
use crate::wire::TOKEN_BYTES_MAX;
use std::fmt;
use std::path::Path;
use subtle::ConstantTimeEq as _;

/// Fewest bytes of a token, because shorter tokens can be guessed.
const TOKEN_BYTES_MIN: usize = 16;

/// A secret that memory nodes and compute nodes share. It is never printed. The time of a comparison depends only on
/// the length of the token.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl Token {
    /// Reads the first line of a file.
    ///
    /// # Errors
    /// [`TcpError::Token`].
    pub fn from_file(path: &Path) -> Result<Self, TcpError> {
        let refuse = |why: String| TcpError::Token { path: path.to_owned(), why };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        Self::new(text.lines().next().unwrap_or_default().trim()).map_err(refuse)
    }

    /// Creates a token from text.
    ///
    /// # Errors
    /// The text is too short or too long.
    pub fn new(text: &str) -> Result<Self, String> {
        if (TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX).contains(&text.len()) {
            return Ok(Self(text.as_bytes().to_vec()));
        }
        Err(format!("its first line has {} characters", text.len()))
    }

    /// Compares the token with `other` in constant time.
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        self.0.ct_eq(other).into()
    }

    /// Returns the bytes on the wire.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_equals_only_itself_and_is_not_printed() {
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef"));
        assert!(!token.is(b"0123456789abcdeF") && !token.is(b"0123456789abcde") && !token.is(b""));
        assert!(!format!("{token:?}").contains("0123"));
    }

    #[test]
    fn an_invalid_token_is_refused() {
        assert!(Token::new("short").unwrap_err().contains("5 characters"));
        assert!(Token::new(&"x".repeat(TOKEN_BYTES_MAX + 1)).is_err());
        let error = Token::from_file(Path::new("/nonexistent/token")).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/token"), "{error}");
    }
}
