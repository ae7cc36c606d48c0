//! The JSON gateway of etcd version 3: leases, keys, and one transaction. Keys and values travel in base64.

use super::error::EtcdError;
use super::listed;
use crate::client::HostPort;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use std::time::Duration;

/// A server that does not answer within this time is skipped.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The servers of one etcd.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    servers: Vec<HostPort>,
    agent: ureq::Agent,
}

/// The outcome of an attempt to create a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyCreation {
    /// It was created.
    Created,
    /// It exists, with this value.
    Exists(String),
}

impl Gateway {
    pub(super) fn new(servers: &[HostPort]) -> Self {
        let agent =
            ureq::Agent::config_builder().timeout_global(Some(ANSWER_MAX)).http_status_as_error(false);
        Self { servers: servers.to_vec(), agent: agent.build().into() }
    }

    /// Grants a lease for `seconds`.
    pub(super) fn grant(&self, seconds: u64) -> Result<String, EtcdError> {
        let answer = self.ask("lease/grant", &json!({ "TTL": seconds }))?;
        text(&answer["ID"]).ok_or_else(|| self.unexpected(&answer))
    }

    /// Renews a lease; false: it has expired.
    pub(super) fn keep(&self, lease: &str) -> Result<bool, EtcdError> {
        let answer = self.ask("lease/keepalive", &json!({ "ID": lease }))?;
        let left = text(&answer["result"]["TTL"]).and_then(|seconds| seconds.parse::<i64>().ok());
        Ok(left.is_some_and(|seconds| seconds > 0))
    }

    /// Ends a lease, and with it the keys under it.
    pub(super) fn revoke(&self, lease: &str) -> Result<(), EtcdError> {
        self.ask("lease/revoke", &json!({ "ID": lease })).map(|_| ())
    }

    /// Creates a key under a lease, unless it exists.
    pub(super) fn make(&self, key: &str, value: &str, lease: &str) -> Result<KeyCreation, EtcdError> {
        let key = BASE64.encode(key);
        let answer = self.ask(
            "kv/txn",
            &json!({
                "compare": [{ "key": key, "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
                "success": [{ "request_put": { "key": key, "value": BASE64.encode(value), "lease": lease } }],
                "failure": [{ "request_range": { "key": key } }],
            }),
        )?;
        if answer["succeeded"] == true {
            return Ok(KeyCreation::Created);
        }
        let there = decoded(&answer["responses"][0]["response_range"]["kvs"][0]["value"]);
        there.map(KeyCreation::Exists).ok_or_else(|| self.unexpected(&answer))
    }

    /// Replaces a key, under a lease.
    pub(super) fn put(&self, key: &str, value: &str, lease: &str) -> Result<(), EtcdError> {
        let body = json!({ "key": BASE64.encode(key), "value": BASE64.encode(value), "lease": lease });
        self.ask("kv/put", &body).map(|_| ())
    }

    /// Returns all keys with that prefix, with their values.
    pub(super) fn list(&self, prefix: &str) -> Result<Vec<(String, String)>, EtcdError> {
        let mut end = prefix.as_bytes().to_vec();
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let body = json!({ "key": BASE64.encode(prefix), "range_end": BASE64.encode(end) });
        let answer = self.ask("kv/range", &body)?;
        let entries = answer["kvs"].as_array().map_or(&[][..], Vec::as_slice);
        let entry = |entry: &Value| Some((decoded(&entry["key"])?, decoded(&entry["value"])?));
        entries.iter().map(|found| entry(found).ok_or_else(|| self.unexpected(found))).collect()
    }

    /// Asks one server after the other, until one answers.
    fn ask(&self, what: &str, body: &Value) -> Result<Value, EtcdError> {
        let mut problems = Vec::new();
        for server in &self.servers {
            match self.ask_one(server, what, body) {
                Ok(answer) => return Ok(answer),
                Err(why) => problems.push(format!("{server}: {why}")),
            }
        }
        Err(EtcdError::NoAnswer { why: problems.join("; ") })
    }

    fn ask_one(&self, server: &HostPort, what: &str, body: &Value) -> Result<Value, String> {
        let in_words = |error: ureq::Error| error.to_string();
        let sent = self.agent.post(format!("http://{server}/v3/{what}")).send(body.to_string());
        let mut response = sent.map_err(in_words)?;
        let text = response.body_mut().read_to_string().map_err(in_words)?;
        if !response.status().is_success() {
            return Err(format!("{}: {}", response.status(), text.trim()));
        }
        serde_json::from_str(&text).map_err(|error| format!("its answer is not etcd's: {error}"))
    }

    fn unexpected(&self, answer: &Value) -> EtcdError {
        EtcdError::NoAnswer { why: format!("{}: unexpected answer: {answer}", listed(&self.servers)) }
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(BASE64.decode(value.as_str()?).ok()?).ok()
}
