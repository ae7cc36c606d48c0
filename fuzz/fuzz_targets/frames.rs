//! The decoder of frames: for arbitrary bytes it neither panics nor reads beyond them, and a decoded frame is as
//! long as it says. `fuzz/run 60 frames`
#![no_main]

use farwood_transport::wire::{Frame, FrameKind, Hello, Welcome, nonce_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Ok(Some(frame)) = Frame::first(rest) {
        assert!(frame.bytes() <= rest.len() && frame.bytes() >= 16);
        match frame.kind {
            FrameKind::Hello => drop(Hello::read(&frame)),
            FrameKind::Welcome => drop(Welcome::read(&frame)),
            FrameKind::Challenge | FrameKind::Proof => drop(nonce_of(&frame)),
            FrameKind::Request => {
                for verb in frame.verbs() {
                    let Ok(verb) = verb else { break };
                    let _ = verb.op.answer_bytes();
                }
            }
            _ => {
                let _ = (frame.words(), frame.text());
            }
        }
        rest = &rest[frame.bytes()..];
    }
});
