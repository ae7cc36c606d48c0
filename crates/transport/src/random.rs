//! Random numbers of the operating system, for identities.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns a random number of the operating system.
///
/// A generator in the memory of this process would not do: a forked child has a copy of its state, so parent and
/// child, or two children, would draw the same numbers. Two pools with one identity share the name of their journal.
///
/// # Panics
/// If the kernel has no random numbers. Linux has them since 3.17.
pub fn random_number() -> u64 {
    let mut bytes = [0; 8];
    loop {
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            // The kernel fills up to 256 bytes at once.
            Ok(length) if length == bytes.len() => return u64::from_ne_bytes(bytes),
            // A signal arrived before the first random numbers of this machine.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("the kernel has no random numbers: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::is_true_in_child;
    use std::fs;

    /// With a generator in memory, both children would write the same number.
    #[test]
    fn forked_children_draw_different_numbers() {
        let folder = tempfile::tempdir().unwrap();
        random_number();
        let drawn = ["a", "b"].map(|name| {
            let path = folder.path().join(name);
            assert!(is_true_in_child(|| fs::write(&path, random_number().to_string()).is_ok()));
            fs::read_to_string(&path).unwrap()
        });
        assert_ne!(drawn[0], drawn[1]);
    }
}
