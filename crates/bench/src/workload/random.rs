//! Seeded random numbers: the mixing bijection on 64 bits, and one small generator per client.
//!
//! The generator is xoshiro256++ (Blackman and Vigna, 2019), seeded through SplitMix64 as its authors recommend. It is
//! implemented here, in thirty lines, so that the seed of a record selects the same run independent of the versions of
//! dependencies.

/// Increment of SplitMix64: 2^64 divided by the golden ratio, odd.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes a word: Stafford's variant 13 of MurmurHash3's finalizer, the one that SplitMix64 uses.
///
/// A bijection on 64 bits; [`unmix`] is its inverse.
#[inline]
pub const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The inverse of [`mix`].
#[inline]
pub const fn unmix(word: u64) -> u64 {
    let word = word ^ (word >> 31) ^ (word >> 62);
    let word = word.wrapping_mul(inverse(0x94D0_49BB_1331_11EB));
    let word = word ^ (word >> 27) ^ (word >> 54);
    let word = word.wrapping_mul(inverse(0xBF58_476D_1CE4_E5B9));
    word ^ (word >> 30) ^ (word >> 60)
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration (each step doubles the right bits).
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut step = 0;
    while step < 5 {
        x = x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

/// Maps a random or mixed word onto `0..bound` by the high half of a product (bias below `bound / 2^64`).
#[inline]
pub const fn below(word: u64, bound: u64) -> u64 {
    ((word as u128 * bound as u128) >> 64) as u64
}

/// A small, fast, seeded generator: xoshiro256++.
#[derive(Clone, Debug)]
pub struct Generator {
    state: [u64; 4],
}

impl Generator {
    /// The generator of one client of a run; the streams of different clients are independent.
    pub fn for_client(seed: u64, client: u64) -> Generator {
        let mut word = mix(seed ^ mix(client.wrapping_add(GOLDEN)));
        let state = std::array::from_fn(|_| {
            word = word.wrapping_add(GOLDEN);
            mix(word)
        });
        Generator { state }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let c2 = c ^ a;
        let d2 = d ^ b;
        self.state = [a ^ d2, b ^ c2, c2 ^ (b << 17), d2.rotate_left(45)];
        result
    }

    /// A number in `0..bound`; `bound` must not be 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        below(self.next_u64(), bound)
    }

    /// Shuffles a list (Fisher and Yates).
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmix_undoes_mix() {
        for i in 0..10_000u64 {
            let word = i.wrapping_mul(GOLDEN) ^ i;
            assert_eq!(unmix(mix(word)), word);
            assert_eq!(mix(unmix(word)), word);
        }
        assert_eq!(unmix(mix(u64::MAX)), u64::MAX);
    }

    #[test]
    fn generator_is_xoshiro256_plus_plus() {
        // The reference implementation's first outputs from the state 1, 2, 3, 4.
        let mut generator = Generator { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| generator.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn clients_have_their_own_repeatable_streams() {
        let draw = |client| {
            let mut g = Generator::for_client(7, client);
            [g.next_u64(), g.next_u64()]
        };
        assert_eq!(draw(0), draw(0));
        assert_ne!(draw(0), draw(1));
        let mut generator = Generator::for_client(1, 1);
        let mean = (0..100_000).map(|_| generator.unit()).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        assert!((0..1000).all(|_| generator.below(3) < 3));
    }
}
