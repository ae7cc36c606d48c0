//! The variants by name: Catfish's baselines, its two improvements one by one, and all of it.

use std::fmt;
use std::str::FromStr;

use farwood_index::catfish::adaptive::Rule;
use farwood_index::catfish::{Issue, Notice};
use serde::{Deserialize, Serialize};

use crate::Error;

/// How clients search. Changes go to the server by message, whatever the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Variant {
    /// In the server's own process, without any messages.
    Local,
    /// By message, over an ordinary socket; in the laboratory, through the kernels of both machines.
    Tcp,
    /// By message through rings, at which the server looks again and again (Catfish §III-A).
    FastMessaging,
    /// By READs, one after the other (Catfish §III-B).
    Offloading,
    /// By message through rings; the server sleeps until an immediate wakes it (Catfish §IV-B).
    Event,
    /// By READs, many at a time (Catfish §IV-C).
    MultiIssue,
    /// By message or by READs, as the back-off of the paper's text says (Catfish §IV-A).
    Catfish,
    /// The same, as the paper's listing says.
    CatfishPrinted,
}

impl Variant {
    /// All of them.
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

    /// Whether searches may go by message.
    pub fn messages(self) -> bool {
        !matches!(self, Variant::Local | Variant::Offloading | Variant::MultiIssue)
    }

    /// Whether searches may go by READs.
    pub fn reads(self) -> bool {
        self.rule().is_some() || matches!(self, Variant::Offloading | Variant::MultiIssue)
    }

    /// Whether a search has several READs in flight.
    pub fn is_multi_issue(self) -> bool {
        self != Variant::Offloading
    }

    /// How many READs a search has in flight.
    pub(super) fn issue(self) -> Issue {
        if self.is_multi_issue() { Issue::Many } else { Issue::One }
    }

    /// Whether the server looks for messages again and again: in the plain schemes, as the paper compares them.
    pub fn is_polling(self) -> bool {
        matches!(self, Variant::FastMessaging | Variant::Offloading)
    }

    /// How the server learns of requests.
    pub(super) fn notice(self) -> Notice {
        if self.is_polling() { Notice::Polling } else { Notice::Event }
    }

    /// What decides between messages and READs.
    pub fn rule(self) -> Option<Rule> {
        match self {
            Variant::Catfish => Some(Rule::Prose),
            Variant::CatfishPrinted => Some(Rule::Printed),
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
