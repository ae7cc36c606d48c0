//! Byte strings as components of tuples: each contains its end, and their order is kept.
//!
//! Every byte 0 is followed by 0xFF, and two zeros are the end. So no encoding is a prefix of another, and a byte
//! string that ends is below all that continue it.

use crate::inline_bytes::InlineBytes;
use crate::unfit::Unfit;

/// The byte after a 0 of a byte string.
const ESCAPED: u8 = 0xFF;

/// Appends a byte string without its end.
#[inline]
pub(super) fn push_escaped(parts: &mut InlineBytes, bytes: &[u8]) {
    let mut runs = bytes.split(|&byte| byte == 0);
    parts.push(runs.next().unwrap_or_default());
    for run in runs {
        parts.push(&[0, ESCAPED]);
        parts.push(run);
    }
}

/// Removes a byte string from the front of `parts`.
pub(super) fn take_escaped(parts: &mut &[u8]) -> Result<Vec<u8>, Unfit> {
    let mut bytes = Vec::new();
    loop {
        let Some(zero) = parts.iter().position(|&byte| byte == 0) else { return Err(CUT) };
        bytes.extend_from_slice(&parts[..zero]);
        match parts.get(zero + 1) {
            Some(0) => {
                *parts = &parts[zero + 2..];
                return Ok(bytes);
            }
            Some(&ESCAPED) => {
                bytes.push(0);
                *parts = &parts[zero + 2..];
            }
            _ => return Err(CUT),
        }
    }
}

/// Removes `length` bytes from the front of `parts`.
#[inline]
pub(super) fn take<'p>(parts: &mut &'p [u8], length: usize) -> Result<&'p [u8], Unfit> {
    let (front, rest) = parts.split_at_checked(length).ok_or(CUT)?;
    *parts = rest;
    Ok(front)
}

/// Refuses bytes after the last component that are not padding.
#[inline]
pub(super) fn check_padding(rest: &[u8]) -> Result<(), Unfit> {
    if rest.iter().all(|&byte| byte == 0) { Ok(()) } else { Err(Unfit::Malformed { expected: "tuple" }) }
}

/// The error for bytes that end within a component, or have a component without an end.
const CUT: Unfit = Unfit::Malformed { expected: "tuple" };
