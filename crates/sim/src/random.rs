//! Random numbers: named streams, all derived from one seed.
//!
//! A stream depends on its name and the seed only, so draws from one stream do not change another.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct RandomStream {
    seed: u64,
    drawn: u64,
}

impl RandomStream {
    /// The stream `name` of a run with this seed.
    pub fn new(seed: u64, name: &str) -> Self {
        Self { seed: xxh3_64_with_seed(name.as_bytes(), seed), drawn: 0 }
    }

    /// Draws the next number.
    pub fn next_u64(&mut self) -> u64 {
        self.drawn += 1;
        xxh3_64_with_seed(&self.drawn.to_le_bytes(), self.seed)
    }

    /// Draws a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Yields true with probability 1 / `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_and_name_only() {
        let draw = |seed, name| -> Vec<u64> {
            let mut stream = RandomStream::new(seed, name);
            (0..8).map(|_| stream.next_u64()).collect()
        };
        assert_eq!(draw(1, "faults"), draw(1, "faults"));
        assert_ne!(draw(1, "faults"), draw(2, "faults"));
        assert_ne!(draw(1, "faults"), draw(1, "keys"));
        let mut stream = RandomStream::new(3, "dice");
        assert!((0..1000).all(|_| stream.below(6) < 6));
    }
}
