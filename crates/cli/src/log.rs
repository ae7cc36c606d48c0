//! The log of a memory node on stderr: one line per event, as text or as JSON.

use farwood::internal::printable;
use farwood::node::NodeEvent;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{SystemTime, UNIX_EPOCH};

/// Capacity of the event queue; further events are counted and dropped.
const WAITING_MAX: usize = 1024;

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Style {
    /// Text
    Text,
    /// One JSON object per line
    Json,
}

/// A memory node's log.
pub(super) struct Log {
    style: Style,
    node: String,
    events: Receiver<NodeEvent>,
}

impl Log {
    /// Creates a log and the sender for its events.
    pub(super) fn new(style: Style) -> (Self, farwood::node::NodeEvents) {
        let (sender, events) = sync_channel(WAITING_MAX);
        (Self { style, node: String::new(), events }, sender)
    }

    /// Sets the name of the memory node in each line.
    pub(super) fn name(&mut self, node: &str) {
        node.clone_into(&mut self.node);
    }

    /// Writes a line: the name of the event, its message, and its fields.
    pub(super) fn write(
        &self,
        out: &mut dyn Write,
        event: &str,
        words: &str,
        fields: Value,
    ) -> io::Result<()> {
        match self.style {
            Style::Text => writeln!(out, "{}: {}", self.node, printable(words)),
            Style::Json => {
                let mut line = json!({ "time": now(), "node": self.node, "event": event, "message": words });
                if let (Value::Object(line), Value::Object(fields)) = (&mut line, fields) {
                    line.extend(fields);
                }
                writeln!(out, "{line}")
            }
        }
    }

    /// Writes the events in the queue.
    pub(super) fn write_events(&self, out: &mut dyn Write) -> io::Result<()> {
        for event in self.events.try_iter() {
            let from = event.from();
            let words = match &from {
                Some(from) => format!("{event} ({from})"),
                None => event.to_string(),
            };
            self.write(out, event.name(), &words, json!({ "from": from }))?;
        }
        Ok(())
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| (time.as_millis() as f64) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_or_objects() {
        let write = |style| {
            let (mut log, events) = Log::new(style);
            log.name("tcp://a:1");
            let from = Some("10.0.0.9:5".parse().unwrap());
            events.send(NodeEvent::BadFrame { from, why: "its length".to_owned() }).unwrap();
            let mut out = Vec::new();
            log.write_events(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            write(Style::Text),
            "tcp://a:1: a connection was closed for an invalid frame: its length (10.0.0.9:5)\n"
        );
        let line: Value = serde_json::from_str(&write(Style::Json)).unwrap();
        assert_eq!((&line["event"], &line["from"]), (&"bad_frame".into(), &"10.0.0.9:5".into()));
        assert!(line["time"].as_f64().unwrap() > 1.7e9, "{line}");
    }
}
