//! For arbitrary bytes the decoder neither panics nor reads beyond them; encoded frames decode to the same
//! values.

use super::*;
use farwood_fabric::{Access, ClientId};
use proptest::prelude::*;

/// A verb that owns its bytes.
#[derive(Clone, Debug)]
enum Owned {
    Read(usize),
    Write(Vec<u8>, Option<u32>),
    Words(u8, [u64; 4]),
}

const LOGS: [LogKind; 3] = [LogKind::Absent, LogKind::WithCuts, LogKind::Always];

impl Owned {
    fn op(&self) -> WireOp<'_> {
        match self {
            Self::Read(bytes) => WireOp::Read(*bytes),
            Self::Write(data, immediate) => WireOp::Write(data, *immediate),
            Self::Words(0, words) => WireOp::Cas { compare: words[0], swap: words[1] },
            Self::Words(1, words) => WireOp::MaskedCas { words: *words },
            Self::Words(_, words) => WireOp::Faa(words[0]),
        }
    }
}

fn verb() -> impl Strategy<Value = (u64, Owned)> {
    let data = prop::collection::vec(any::<u8>(), 0..300);
    let op = prop_oneof![
        (0..=VERB_DATA_MAX).prop_map(Owned::Read),
        (data, any::<Option<u32>>()).prop_map(|(data, immediate)| Owned::Write(data, immediate)),
        (0..3_u8, any::<[u64; 4]>()).prop_map(|(kind, words)| Owned::Words(kind, words)),
    ];
    (any::<u64>(), op)
}

fn encoded(verbs: &[(u64, Owned)], tag: u64) -> Vec<u8> {
    let mut out = vec![0xEE; 8];
    let mut frame = RequestFrame::begin(&mut out);
    for (at, op) in verbs {
        frame.push(WireVerb { at: *at, op: op.op() });
    }
    frame.end(tag, tag.rotate_left(8));
    out.split_off(8)
}

proptest! {
    #[test]
    fn verbs_round_trip(verbs in prop::collection::vec(verb(), 0..4), tag: u64) {
        let bytes = encoded(&verbs, tag);
        let frame = Frame::first(&bytes).unwrap().unwrap();
        prop_assert_eq!((frame.kind, frame.tag, frame.bytes()), (FrameKind::Request, tag, bytes.len()));
        prop_assert_eq!(frame.cut, tag.rotate_left(8));
        let back: Vec<_> = frame.verbs().collect();
        let expected: Vec<_> = verbs.iter().map(|(at, op)| Ok(WireVerb { at: *at, op: op.op() })).collect();
        prop_assert_eq!(back, expected);
    }

    #[test]
    fn an_incomplete_frame_is_waited_for(
        verbs in prop::collection::vec(verb(), 0..4), cut in any::<prop::sample::Index>(),
    ) {
        let bytes = encoded(&verbs, 1);
        let cut = cut.index(bytes.len());
        prop_assert!(matches!(Frame::first(&bytes[..cut]), Ok(None)));
    }

    #[test]
    fn a_wrong_count_is_detected(verbs in prop::collection::vec(verb(), 1..4), count: u16) {
        prop_assume!(usize::from(count) != verbs.len());
        let mut bytes = encoded(&verbs, 1);
        bytes[6..8].copy_from_slice(&count.to_le_bytes());
        let frame = Frame::first(&bytes).unwrap().unwrap();
        prop_assert!(frame.verbs().any(|verb| verb.is_err()));
    }

    #[test]
    fn a_damaged_request_is_decoded_or_refused(
        verbs in prop::collection::vec(verb(), 0..4), at in any::<prop::sample::Index>(), with: u8,
    ) {
        let mut bytes = encoded(&verbs, 1);
        let at = at.index(bytes.len());
        bytes[at] = with;
        if let Ok(Some(frame)) = Frame::first(&bytes) {
            prop_assert!(frame.verbs().count() <= usize::from(frame.count) + 1);
        }
    }

    #[test]
    fn arbitrary_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(Some(frame)) = Frame::first(&bytes) {
            prop_assert!(frame.bytes() <= bytes.len());
            let data: usize = frame.verbs().flatten().map(|verb| verb.op.request_bytes()).sum();
            prop_assert!(data <= frame.body.len());
            let _ = (Hello::read(&frame), Welcome::read(&frame), frame.words(), frame.text());
        }
    }

    #[test]
    fn arbitrary_bodies_are_decoded_or_refused(
        kind in 1..=11_u8, count: u16,
        body in prop::collection::vec(any::<u8>(), 0..30).prop_map(|words| words.repeat(8)),
    ) {
        let kind = FrameKind::from_byte(kind).unwrap();
        let mut bytes = Vec::new();
        put_frame(&mut bytes, kind, 0, count, 0, &body);
        let frame = Frame::first(&bytes).unwrap().unwrap();
        let _ = (Hello::read(&frame), Welcome::read(&frame), frame.words(), frame.text());
        prop_assert!(frame.verbs().count() <= usize::from(count) + 1);
    }

    #[test]
    fn greetings_round_trip(
        pool: u64, node: u16, name: Option<(u16, u32)>, connection_number: u64,
        nonce: Option<[u8; 32]>,
    ) {
        let client = name.map(|(slot, epoch)| ClientId { slot, epoch });
        let hello = Hello { pool, node, client, connection_number, nonce };
        let mut bytes = Vec::new();
        hello.put(&mut bytes);
        let frame = Frame::first(&bytes).unwrap().unwrap();
        prop_assert_eq!(Hello::read(&frame), Ok(hello));
        let welcome = Welcome {
            formed: Formation::Part, log: LOGS[pool as usize % 3], pool, node, nodes: node,
            host_bytes: connection_number, device_bytes: pool, incarnation: connection_number,
            access: if node % 2 == 0 { Access::ReadWrite } else { Access::ReadOnly },
            proof: nonce.unwrap_or_default(),
        };
        let mut bytes = Vec::new();
        welcome.put(&mut bytes);
        let frame = Frame::first(&bytes).unwrap().unwrap();
        prop_assert_eq!(Welcome::read(&frame), Ok(welcome));
    }
}

#[test]
fn invalid_lengths_are_refused() {
    for bytes in [0, 8, 15, 17, 20, FRAME_BYTES_MAX as u32 + 8, u32::MAX] {
        let mut frame = vec![0; 64];
        frame[..4].copy_from_slice(&bytes.to_le_bytes());
        frame[4] = FrameKind::Request as u8;
        assert_eq!(Frame::first(&frame).unwrap_err(), Malformed::Length(bytes), "{bytes}");
    }
}

#[test]
fn another_version_and_another_magic_are_distinguished() {
    let hello = Hello { pool: 0, node: ANY_NODE, client: None, connection_number: 0, nonce: None };
    let mut bytes = Vec::new();
    hello.put(&mut bytes);
    let mut newer = bytes.clone();
    newer[HEADER_BYTES + 8] = VERSION as u8 + 1;
    assert_eq!(
        Hello::read(&Frame::first(&newer).unwrap().unwrap()),
        Err(GreetingError::Version(VERSION + 1))
    );
    // Greetings of other versions have other lengths, and up to version 3 a shorter header.
    let mut older = Vec::new();
    put_frame(&mut older, FrameKind::Hello, 0, 0, 0, &bytes[HEADER_BYTES..HEADER_BYTES + 48]);
    older[HEADER_BYTES + 8] = VERSION as u8 - 1;
    assert_eq!(
        Hello::read(&Frame::first(&older).unwrap().unwrap()),
        Err(GreetingError::Version(VERSION - 1))
    );
    older.drain(8..16);
    let bytes_in_all = older.len() as u8;
    older[0] = bytes_in_all;
    assert_eq!(
        Hello::read(&Frame::first(&older).unwrap().unwrap()),
        Err(GreetingError::Version(VERSION - 1))
    );
    bytes[HEADER_BYTES] = b'G';
    let read = Hello::read(&Frame::first(&bytes).unwrap().unwrap());
    assert!(matches!(read, Err(GreetingError::Malformed(Malformed::Magic(_)))), "{read:?}");
}

#[test]
fn the_largest_verbs_fit_and_one_more_byte_does_not() {
    let data = vec![7; VERB_DATA_MAX];
    let mut out = Vec::new();
    let mut frame = RequestFrame::begin(&mut out);
    for _ in 0..4 {
        frame.push(WireVerb { at: 8, op: WireOp::Write(&data, Some(1)) });
    }
    assert!(!frame.fits(&WireOp::Write(&data, None)));
    frame.end(0, 0);
    assert_eq!(Frame::first(&out).unwrap().unwrap().verbs().flatten().count(), 4);
    let mut bytes = encoded(&[(8, Owned::Read(8))], 0);
    bytes[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&(VERB_DATA_MAX as u32 + 1).to_le_bytes());
    assert_eq!(Frame::first(&bytes).unwrap().unwrap().verbs().next(), Some(Err(Malformed::Verb)));
}

#[test]
fn every_number_of_a_kind_a_code_and_a_control_round_trips() {
    let all = |from: fn(u8) -> Option<u8>| (0..=u8::MAX).filter_map(from).collect::<Vec<_>>();
    assert_eq!(all(|byte| FrameKind::from_byte(byte).map(|kind| kind as u8)), (1..=11).collect::<Vec<_>>());
    assert_eq!(
        all(|byte| Code::from_byte(byte).map(|code| code as u8)),
        (1..=16).chain(20..=21).collect::<Vec<_>>()
    );
    assert_eq!(
        all(|byte| Control::from_byte(byte).map(|control| control as u8)),
        (1..=16).chain(20..=24).collect::<Vec<_>>()
    );
}

#[test]
fn the_text_of_a_refusal_is_one_line_without_escapes() {
    let mut bytes = Vec::new();
    put_text(&mut bytes, FrameKind::Refused, Code::BadToken, 0, "full\n\u{1b}[2J\u{9b}x");
    assert_eq!(Frame::first(&bytes).unwrap().unwrap().text(), "full\\n\\u{1b}[2J\\u{9b}x");
}
