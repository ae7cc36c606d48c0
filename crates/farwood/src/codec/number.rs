//! Numbers: big-endian, so that the order of the bytes is the order of the numbers.

use super::encode::{Codec, Encode, Key, Value};
use super::short::{ShortBytes, unpad_short};
use super::type_name::TypeName;
use crate::kind::Kind;
use crate::unfit::Unfit;
use crate::width::Width;

/// Implements the traits for a type with the functions `$bytes` to big-endian bytes in the order of the type, and
/// `$number` back.
macro_rules! number {
    ($number:ty, $name:literal, $kind:expr, $encoded:ty, $bytes:expr, $read:expr) => {
        impl Encode<$number> for $number {
            type Encoded<'a> = $encoded;

            #[inline]
            fn encode(&self, width: Width) -> Result<$encoded, Unfit> {
                let bytes: fn($number, Width) -> $encoded = $bytes;
                Ok(bytes(*self, width))
            }
        }

        impl Codec for $number {
            const KIND: Kind = $kind;
            const NAME: TypeName = TypeName::new($name);
            const WIDTH: Option<usize> = Some(size_of::<$number>());

            #[inline]
            fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
                let read: fn([u8; size_of::<$number>()]) -> Result<$number, Unfit> = $read;
                read(unpad_short(bytes)?)
            }
        }

        impl Key for $number {}
        impl Value for $number {}
    };
}

/// A number of at least 8 bytes.
macro_rules! long {
    ($number:ty, $name:literal, $kind:expr, $to:expr, $from:expr) => {
        number!(
            $number,
            $name,
            $kind,
            [u8; size_of::<$number>()],
            |number, _| $to(number).to_be_bytes(),
            |bytes| Ok($from(bytes))
        );
    };
}

/// A number of less than 8 bytes.
macro_rules! short {
    ($number:ty, $name:literal, $to:expr, $from:expr) => {
        number!(
            $number,
            $name,
            Kind::Structured,
            ShortBytes,
            |number, width| ShortBytes::new($to(number).to_be_bytes(), width),
            |bytes| Ok($from(bytes))
        );
    };
}

short!(u8, "u8", |number: u8| number, u8::from_be_bytes);
short!(u16, "u16", |number: u16| number, u16::from_be_bytes);
short!(u32, "u32", |number: u32| number, u32::from_be_bytes);
long!(u64, "u64", Kind::U64, |number: u64| number, u64::from_be_bytes);
long!(u128, "u128", Kind::Structured, |number: u128| number, u128::from_be_bytes);
short!(i8, "i8", |number: i8| number ^ i8::MIN, |bytes| i8::from_be_bytes(bytes) ^ i8::MIN);
short!(i16, "i16", |number: i16| number ^ i16::MIN, |bytes| i16::from_be_bytes(bytes) ^ i16::MIN);
short!(i32, "i32", |number: i32| number ^ i32::MIN, |bytes| i32::from_be_bytes(bytes) ^ i32::MIN);
long!(i64, "i64", Kind::I64, |number: i64| number ^ i64::MIN, |bytes| i64::from_be_bytes(bytes) ^ i64::MIN);
long!(i128, "i128", Kind::Structured, |number: i128| number ^ i128::MIN, |bytes| i128::from_be_bytes(bytes)
    ^ i128::MIN);
short!(f32, "f32", |number: f32| ordered_32(number.to_bits()), |bytes| {
    f32::from_bits(unordered_32(u32::from_be_bytes(bytes)))
});
long!(f64, "f64", Kind::F64, |number: f64| ordered_64(number.to_bits()), |bytes| {
    f64::from_bits(unordered_64(u64::from_be_bytes(bytes)))
});
number!(
    bool,
    "bool",
    Kind::Bool,
    ShortBytes,
    |value, width| ShortBytes::new([u8::from(value)], width),
    |bytes| match bytes {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => Err(Unfit::Malformed { expected: "bool" }),
    }
);

/// The bits of a number, in the order of `total_cmp`: -NaN, negative numbers, -0, 0, positive numbers, NaN.
const fn ordered_32(bits: u32) -> u32 {
    if bits >> 31 == 0 { bits | 1 << 31 } else { !bits }
}

const fn unordered_32(ordered: u32) -> u32 {
    if ordered >> 31 == 0 { !ordered } else { ordered & !(1 << 31) }
}

/// As [`ordered_32`].
const fn ordered_64(bits: u64) -> u64 {
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

const fn unordered_64(ordered: u64) -> u64 {
    if ordered >> 63 == 0 { !ordered } else { ordered & !(1 << 63) }
}

impl Encode<()> for () {
    type Encoded<'a> = ShortBytes;

    #[inline]
    fn encode(&self, width: Width) -> Result<ShortBytes, Unfit> {
        Ok(ShortBytes::new([], width))
    }
}

impl Codec for () {
    const KIND: Kind = Kind::Structured;
    const NAME: TypeName = TypeName::new("()");
    const WIDTH: Option<usize> = Some(0);

    #[inline]
    fn decode(bytes: &[u8]) -> Result<Self, Unfit> {
        unpad_short(bytes).map(|[]: [u8; 0]| ())
    }
}

impl Key for () {}
impl Value for () {}
