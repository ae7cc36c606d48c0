//! The variants of a spatial index by name: Catfish's baselines, each of its two improvements, and Catfish itself.

use std::fmt;
use std::str::FromStr;

use farwood_index::catfish::adaptive::BackOffRule;
use farwood_index::catfish::{Issue, NotificationMode};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::workload::rectangles::SpatialMix;

/// The search path of the clients. In all variants they send changes to the server as messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Variant {
    /// Searches in the server's own process, without messages.
    Local,
    /// Searches by message over a socket; in the simulator, through the kernels of both machines.
    Tcp,
    /// Searches by message through rings that the server polls (Catfish §III-A).
    FastMessaging,
    /// Searches by READs, one after the other (Catfish §III-B).
    Offloading,
    /// Searches by message through rings; the server sleeps until an immediate wakes it (Catfish §IV-B).
    Event,
    /// Searches by READs, many at a time (Catfish §IV-C).
    MultiIssue,
    /// Searches by message or by READs, chosen by the back-off of the paper's text (Catfish §IV-A).
    Catfish,
    /// Catfish with the back-off of the listing in the paper, which differs from the text of the paper.
    CatfishPrinted,
}

impl Variant {
    /// All variants.
    pub const ALL: [Variant; 8] = [
        Variant::Local,
        Variant::Tcp,
        Variant::FastMessaging,
        Variant::Offloading,
        Variant::Event,
        Variant::MultiIssue,
        Variant::Catfish,
        Variant::CatfishPrinted,
    ];

    /// The name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Variant::Local => "local",
            Variant::Tcp => "tcp",
            Variant::FastMessaging => "fast-messaging",
            Variant::Offloading => "offloading",
            Variant::Event => "+event",
            Variant::MultiIssue => "+multi-issue",
            Variant::Catfish => "catfish",
            Variant::CatfishPrinted => "catfish-printed",
        }
    }

    /// Whether searches can be messages.
    pub fn messages(self) -> bool {
        !matches!(self, Variant::Local | Variant::Offloading | Variant::MultiIssue)
    }

    /// Whether searches can use READs.
    pub fn reads(self) -> bool {
        self.rule().is_some() || matches!(self, Variant::Offloading | Variant::MultiIssue)
    }

    /// Whether clients need a connection to the server for the requests of `mix`.
    pub(crate) fn connects(self, mix: SpatialMix) -> bool {
        self != Variant::Local && (self.messages() || mix.inserts())
    }

    /// Whether a search has several READs in flight.
    pub fn is_multi_issue(self) -> bool {
        self != Variant::Offloading
    }

    /// Whether a search has one READ or many in flight.
    pub(crate) fn issue(self) -> Issue {
        if self.is_multi_issue() { Issue::Many } else { Issue::One }
    }

    /// Whether the server polls for messages, as it does in the plain schemes of the paper's comparison.
    pub fn is_polling(self) -> bool {
        matches!(self, Variant::FastMessaging | Variant::Offloading)
    }

    /// The way in which the server detects requests.
    pub(crate) fn notice(self) -> NotificationMode {
        if self.is_polling() { NotificationMode::Polling } else { NotificationMode::Event }
    }

    /// The rule that chooses between messages and READs.
    pub fn rule(self) -> Option<BackOffRule> {
        match self {
            Variant::Catfish => Some(BackOffRule::Prose),
            Variant::CatfishPrinted => Some(BackOffRule::Printed),
            _ => None,
        }
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Variant {
    type Err = Error;

    fn from_str(name: &str) -> Result<Variant, Error> {
        Variant::ALL.into_iter().find(|variant| variant.name() == name).ok_or_else(|| {
            let names = Variant::ALL.map(Variant::name).join(", ");
            Error::parameter(
                "--variant",
                format!("no such variant of catfish: {name}"),
                format!("give {names}"),
            )
        })
    }
}
