//! Round trips and orders of all types.

use super::{Codec, Encode, Key, Prefix, StartsWith, TypeName, prefix_of};
use crate::inline_bytes::InlineBytes;
use crate::unfit::Unfit;
use crate::width::Width;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::fmt::Debug;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn encoded<T: Codec>(value: &T, width: Width) -> Vec<u8> {
    value.encode(width).unwrap_or_else(|unfit| panic!("{unfit}")).as_ref().to_vec()
}

fn part<T: Codec>(value: &T) -> Vec<u8> {
    let mut parts = InlineBytes::empty();
    value.encode_part(&mut parts).unwrap_or_else(|unfit| panic!("{unfit}"));
    parts.as_ref().to_vec()
}

/// Checks that both are read back, and that the bytes have the order `expected`: alone, as keys of one length, and as
/// components before something else.
fn check<T: Codec + Debug>(a: &T, b: &T, expected: Ordering, is_same: impl Fn(&T, &T) -> bool) {
    let most = encoded(a, Width::UpTo(4096)).len().max(encoded(b, Width::UpTo(4096)).len());
    let padded = Width::Exactly(most.max(8));
    let mut widths = vec![Width::UpTo(4096), T::WIDTH.map_or(padded, Width::Exactly)];
    if T::WIDTH.is_some_and(|bytes| bytes < 8) {
        widths.push(padded);
    }
    for width in widths {
        let bytes = [a, b].map(|value| encoded(value, width));
        assert_eq!(bytes[0].cmp(&bytes[1]), expected, "{a:?} {b:?} {width:?}");
        for (value, bytes) in [a, b].into_iter().zip(&bytes) {
            assert_eq!(width.check(bytes.len()), Ok(()));
            assert!(is_same(&T::decode(bytes).unwrap(), value), "{value:?} {width:?}");
        }
    }
    for (tails, order) in
        [([0, 255], Ordering::Less), ([255, 0], Ordering::Greater), ([7, 7], Ordering::Equal)]
    {
        let bytes = [part(a), part(b)].into_iter().zip(tails).map(|(mut part, tail)| {
            part.push(tail);
            part
        });
        let [first, second]: [Vec<u8>; 2] = bytes.collect::<Vec<_>>().try_into().unwrap();
        assert_eq!(first.cmp(&second), expected.then(order), "{a:?} {b:?} as components");
        let mut rest = &first[..];
        assert!(is_same(&T::decode_part(&mut rest).unwrap(), a));
        assert_eq!(rest, [tails[0]]);
    }
}

fn ordered<T: Codec + Debug + Ord>(a: &T, b: &T) {
    check(a, b, a.cmp(b), |a, b| a == b);
}

/// Byte strings in which zeros, 0xFF and common starts are frequent.
fn strings() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 0..6)
}

/// Texts without NUL in which common starts are frequent.
fn texts() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![Just('a'), Just('\u{1}'), Just('é'), Just('日')], 0..5)
        .prop_map(|letters| letters.into_iter().collect())
}

fn times() -> impl Strategy<Value = SystemTime> {
    (any::<i32>(), 0..1_000_000_000_u32).prop_map(|(seconds, nanoseconds)| {
        let whole = Duration::from_secs(seconds.unsigned_abs().into());
        let start = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        start + Duration::from_nanos(nanoseconds.into())
    })
}

/// Two values, which are equal now and then.
fn pairs<T: Clone + Debug>(values: impl Strategy<Value = T>) -> impl Strategy<Value = (T, T)> {
    (prop::array::uniform2(values), 0..4_u8)
        .prop_map(|([a, b], same)| if same == 0 { (a.clone(), a) } else { (a, b) })
}

macro_rules! orders {
    ($($name:ident: $values:expr;)+) => {
        proptest! {
            $(#[test]
            fn $name((a, b) in pairs($values)) {
                ordered(&a, &b);
            })+
        }
    };
}

orders! {
    u8_keeps_its_order: any::<u8>();
    u16_keeps_its_order: any::<u16>();
    u32_keeps_its_order: any::<u32>();
    u64_keeps_its_order: any::<u64>();
    u128_keeps_its_order: any::<u128>();
    i8_keeps_its_order: any::<i8>();
    i16_keeps_its_order: any::<i16>();
    i32_keeps_its_order: any::<i32>();
    i64_keeps_its_order: any::<i64>();
    i128_keeps_its_order: any::<i128>();
    bool_keeps_its_order: any::<bool>();
    arrays_keep_their_order: any::<[u8; 3]>();
    long_arrays_keep_their_order: any::<[u8; 9]>();
    texts_keep_their_order: texts();
    durations_keep_their_order: (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n));
    times_keep_their_order: times();
    optional_numbers_keep_their_order: prop::option::of(any::<i16>());
    optional_texts_keep_their_order: prop::option::of(texts());
    nested_options_keep_their_order: prop::option::of(prop::option::of(any::<u8>()));
    fixed_tuples_keep_their_order: (any::<u8>(), any::<i16>());
    tuples_of_strings_keep_their_order: (strings(), texts(), strings());
    tuples_of_options_keep_their_order: (prop::option::of(strings()), prop::option::of(any::<u8>()), texts());
    nested_tuples_keep_their_order: ((texts(), any::<u8>()), (strings(),));
    long_tuples_keep_their_order:
        (any::<bool>(), texts(), any::<i8>(), strings(), prop::option::of(texts()), any::<u8>());
}

proptest! {
    #[test]
    fn byte_strings_of_any_length_keep_their_order((a, b) in pairs(strings())) {
        let width = Width::UpTo(100);
        prop_assert_eq!(encoded(&a, width).cmp(&encoded(&b, width)), a.cmp(&b));
        prop_assert_eq!(part(&a).cmp(&part(&b)), a.cmp(&b));
        let bytes = part(&a);
        prop_assert_eq!(Vec::<u8>::decode_part(&mut &bytes[..]), Ok(a));
    }

    #[test]
    fn floating_point_numbers_have_the_total_order(a in any::<u64>(), b in any::<u64>()) {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        check(&a, &b, a.total_cmp(&b), |a, b| a.to_bits() == b.to_bits());
        let (a, b) = (f32::from_bits(a.to_bits() as u32), f32::from_bits(b.to_bits() as u32));
        check(&a, &b, a.total_cmp(&b), |a, b| a.to_bits() == b.to_bits());
    }

    #[test]
    fn decoders_accept_or_refuse_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let _ = (<(String, Option<u8>, Vec<u8>)>::decode(&bytes), Option::<String>::decode(&bytes));
        let _ = (SystemTime::decode(&bytes), Duration::decode(&bytes), bool::decode(&bytes));
        let _ = (<((u8, u16), f32)>::decode(&bytes), Option::<(u8, bool)>::decode(&bytes), <()>::decode(&bytes));
    }

    #[test]
    fn a_prefix_selects_the_tuples_that_it_begins(
        key in (0..3_u8, texts(), strings()),
        number in 0..3_u8,
        text in texts(),
        start in strings(),
    ) {
        type K = (u8, String, Vec<u8>);
        let begins = |prefix: Vec<u8>| encoded(&key, Width::UpTo(100)).starts_with(&prefix);
        prop_assert_eq!(begins(prefix::<K>(&(number,))), key.0 == number);
        prop_assert_eq!(begins(prefix::<K>(&(number, &text))), key.0 == number && key.1 == text);
        let starts = key.0 == number && key.1.starts_with(&text);
        prop_assert_eq!(begins(prefix::<K>(&(number, StartsWith(&text)))), starts);
        let ends = key.0 == number && key.1 == text && key.2.starts_with(&start);
        prop_assert_eq!(begins(prefix::<K>(&(number, &text, StartsWith(&start)))), ends);
        let same = key.0 == number && key.1 == text && key.2 == start;
        prop_assert_eq!(begins(prefix::<K>(&(number, text, start))), same);
    }
}

fn prefix<K: Key>(given: &impl Prefix<K>) -> Vec<u8> {
    prefix_of(given).unwrap().as_ref().to_vec()
}

/// The bytes that `docs/library.md` shows.
#[test]
fn the_encoding_is_the_documented_one() {
    let any = Width::UpTo(100);
    assert_eq!(encoded(&1_u16, any), [0, 1]);
    assert_eq!(encoded(&-1_i16, any), [0x7F, 0xFF]);
    assert_eq!(encoded(&1_i16, Width::Exactly(8)), [0x80, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(encoded(&1.0_f32, any), [0xBF, 0x80, 0, 0]);
    assert_eq!(encoded(&-1.0_f32, any), [0x40, 0x7F, 0xFF, 0xFF]);
    assert_eq!(encoded(&Duration::from_millis(1500), any), [0, 0, 0, 0, 0, 0, 0, 1, 0x1D, 0xCD, 0x65, 0]);
    let before = UNIX_EPOCH - Duration::from_millis(500);
    assert_eq!(encoded(&before, any), [0x7F, 255, 255, 255, 255, 255, 255, 255, 0x1D, 0xCD, 0x65, 0]);
    assert_eq!(encoded(&Some(7_u16), any), [1, 0, 7]);
    assert_eq!(encoded(&None::<u16>, any), [0, 0, 0]);
    assert_eq!(encoded(&Some("ab".to_owned()), any), *b"\x01ab");
    assert_eq!(encoded(&(7_u16, "ab".to_owned()), any), *b"\0\x07ab\0\0");
    assert_eq!(encoded(&(vec![1, 0, 2], true), any), [1, 0, 255, 2, 0, 0, 1]);
    assert_eq!(encoded(&("a".to_owned(),), Width::Exactly(8)), *b"a\0\0\0\0\0\0\0");
    assert_eq!(encoded(&(None::<String>, Some("a".to_owned())), any), *b"\0\x01a\0\0");
}

#[test]
fn values_of_one_length_and_of_any_length_are_read_back() {
    for width in [5, 64, 65, 900] {
        let bytes = encoded(&"hello".to_owned(), Width::Exactly(width));
        assert_eq!(bytes.len(), width);
        assert_eq!(String::decode(&bytes).as_deref(), Ok("hello"), "{width}");
    }
    for text in ["", "a", "a longer text than the others in this test, of more than sixty-four bytes in all"]
    {
        assert_eq!(encoded(&text.to_owned(), Width::UpTo(100)), text.as_bytes());
    }
    assert_eq!(encoded(&vec![1_u8, 0], Width::UpTo(100)), [1, 0]);
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let text = |text: &str, width| Encode::<String>::encode(text, width).map(|_| ());
    assert_eq!(text("too long", Width::Exactly(7)), Err(Unfit::TooLong { most: 7, found: 8 }));
    assert_eq!(text("a\0", Width::UpTo(7)), Err(Unfit::Nul { at: 1 }));
    assert_eq!(String::decode(&[0xff, 0, 0]), Err(Unfit::NoText));
    let bytes = |bytes: &[u8], width| Encode::<Vec<u8>>::encode(bytes, width).map(|_| ());
    assert_eq!(bytes(&[1, 2], Width::Exactly(3)), Err(Unfit::Length { expected: 3, found: 2 }));
    assert_eq!(bytes(&[1, 2], Width::UpTo(1)), Err(Unfit::TooLong { most: 1, found: 2 }));
    let tuple = Encode::<(u8, String)>::encode(&(1, "abc"), Width::Exactly(5));
    assert!(matches!(tuple, Err(Unfit::TooLong { most: 5, found: 6 })));
    assert_eq!(u64::decode(&[1, 2, 3]), Err(Unfit::Length { expected: 8, found: 3 }));
    assert_eq!(u32::decode(&[0, 0, 0, 1, 0, 0, 0, 1]), Err(Unfit::Length { expected: 4, found: 8 }));
    assert!(bool::decode(&[2]).is_err() && Option::<u8>::decode(&[2, 0]).is_err());
    assert!(<(u8, String)>::decode(&[1, b'a', 0]).is_err(), "a text without its end");
    assert!(<(u8, String)>::decode(&[1, b'a', 0, 7, 0, 0]).is_err(), "a zero before another byte");
    assert!(<(u8, u8)>::decode(&[1, 2, 3]).is_err(), "a byte after the tuple");
    assert!(Duration::decode(&[0, 0, 0, 0, 0, 0, 0, 1, 255, 255, 255, 255]).is_err(), "4 s of nanoseconds");
}

#[test]
fn a_text_in_a_tuple_may_contain_nul() {
    let key = ("a\0b".to_owned(), 1_u8);
    assert_eq!(<(String, u8)>::decode(&encoded(&key, Width::UpTo(100))), Ok(key));
}

#[test]
fn types_have_different_names() {
    let names = [
        u64::NAME,
        i64::NAME,
        String::NAME,
        Vec::<u8>::NAME,
        Option::<u64>::NAME,
        <(u64,)>::NAME,
        <(u64, String)>::NAME,
        <(u64, (String, bool))>::NAME,
        <(u64, String, bool)>::NAME,
        TypeName::new("user id"),
    ];
    let shown = names.map(|name| name.to_string());
    assert_eq!(shown[5..9], ["(u64,)", "(u64, text)", "(u64, (text, bool))", "(u64, text, bool)"]);
    for (at, name) in names.into_iter().enumerate() {
        assert_eq!(names.iter().position(|other| other.hash() == name.hash()), Some(at), "{name}");
    }
    assert_eq!(<[u8; 3]>::NAME, Vec::<u8>::NAME);
    assert_eq!(TypeName::of_hash(u64::NAME.hash(), None), &u64::NAME);
    assert!(TypeName::of_hash(TypeName::new("user id").hash(), Some(&u64::NAME)).is_unknown());
}
