//! Intercepts CASes in device memory: for each client, every CAS that would have succeeded fails once.
//!
//! The interceptor stores its word just before the CAS, and restores the previous word soon after, as another client
//! that acquires and releases a lock would.

use super::{Device, VerbKind};
use crate::queue::{Event, Key};
use farwood_fabric::{Address, Memory, Op};
use slab::Slab;

/// The state of the interceptor.
#[derive(Debug)]
pub(crate) struct CasInterceptor {
    /// The word that it stores.
    word: u64,
    /// The time until it restores the previous word, nanoseconds.
    nanoseconds: u64,
    /// The changed words with their previous contents.
    held: Slab<(Address, u64)>,
}

impl CasInterceptor {
    pub(crate) fn new(word: u64, nanoseconds: u64) -> Self {
        Self { word, nanoseconds, held: Slab::new() }
    }
}

impl Device {
    /// Changes the word of a CAS that is about to succeed, unless the client's last CAS there was intercepted.
    pub(super) fn intercept_cas(&mut self, verb: Key) {
        let posted = &self.verbs[verb as usize];
        let (at, client, kind) = (posted.at, posted.client as usize, posted.kind);
        if self.cas_interceptor.is_none()
            || self.rules_ended
            || kind != VerbKind::Atomic
            || at.memory() != Memory::Device
        {
            return;
        }
        let before = self.word(at);
        let wins = matches!(self.op(verb).0, Op::Cas { compare, .. } if *compare == before);
        if !wins || self.connections[client].intercepted_at.take() == Some(at) {
            return;
        }
        self.connections[client].intercepted_at = Some(at);
        self.met.outrun += 1;
        let Some(cas_interceptor) = &mut self.cas_interceptor else { unreachable!("checked above") };
        let (word, time) = (cas_interceptor.word, self.queue.now + cas_interceptor.nanoseconds);
        let held = cas_interceptor.held.insert((at, before));
        self.queue.at(time, Event::RestoreWord(held as Key));
        self.set_word(at, word);
    }

    /// Restores a changed word.
    pub(super) fn restore_word(&mut self, held: Key) {
        let Some(cas_interceptor) = &mut self.cas_interceptor else {
            unreachable!("a changed word has an interceptor")
        };
        let ((at, before), word) = (cas_interceptor.held.remove(held as usize), cas_interceptor.word);
        if self.word(at) == word {
            self.set_word(at, before);
        }
    }
}
