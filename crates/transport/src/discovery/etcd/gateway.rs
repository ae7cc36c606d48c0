//! The JSON gateway of etcd version 3: leases, keys, and one transaction. Keys and values are sent in base64.

use super::access::{EtcdAccess, EtcdUser};
use super::error::EtcdError;
use super::listed;
use crate::client::HostPort;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use farwood_fabric::printable;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A server that does not answer within this time is skipped.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// The servers of one etcd.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    servers: Vec<HostPort>,
    agent: ureq::Agent,
    scheme: &'static str,
    user: Option<EtcdUser>,
    /// The token that etcd gave the user.
    token: Arc<Mutex<Option<String>>>,
}

/// The reason why a server gave no answer.
enum AskError {
    /// The server is not reachable, or is not an etcd.
    Lost(String),
    /// The server requires a user, another password, or a new token.
    Denied(String),
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
    pub(super) fn new(servers: &[HostPort], access: EtcdAccess) -> Self {
        let mut agent = ureq::Agent::config_builder()
            .timeout_global(Some(ANSWER_MAX))
            .http_status_as_error(false)
            // An etcd server sends no redirects.
            .max_redirects(0)
            .max_redirects_will_error(false);
        let mut scheme = "http";
        if let Some(tls) = access.tls {
            (agent, scheme) = (agent.tls_config(tls).https_only(true), "https");
        }
        let (servers, agent) = (servers.to_vec(), agent.build().into());
        Self { servers, agent, scheme, user: access.user, token: Arc::default() }
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

    /// Asks one server after the other, until one answers. A user whose token has expired gets a new one.
    fn ask(&self, what: &str, body: &Value) -> Result<Value, EtcdError> {
        match self.try_ask(what, body) {
            Err(EtcdError::Refused { .. }) if self.user.is_some() => {
                *self.token() = None;
                self.try_ask(what, body)
            }
            asked => asked,
        }
    }

    fn try_ask(&self, what: &str, body: &Value) -> Result<Value, EtcdError> {
        let mut problems = Vec::new();
        for server in &self.servers {
            let asked = self.authenticate(server).and_then(|()| self.ask_one(server, what, body));
            match asked {
                Ok(answer) => return Ok(answer),
                Err(AskError::Denied(why)) => {
                    return Err(EtcdError::Refused { why: format!("{server}: {why}") });
                }
                Err(AskError::Lost(why)) => problems.push(format!("{server}: {why}")),
            }
        }
        Err(EtcdError::NoAnswer { why: problems.join(", ") })
    }

    fn token(&self) -> MutexGuard<'_, Option<String>> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a token for the user, if there is a user without one.
    fn authenticate(&self, server: &HostPort) -> Result<(), AskError> {
        let Some(user) = &self.user else { return Ok(()) };
        if self.token().is_some() {
            return Ok(());
        }
        let body = json!({ "name": user.name, "password": user.password });
        let answer = self.ask_one(server, "auth/authenticate", &body)?;
        let token = text(&answer["token"]);
        *self.token() = Some(token.ok_or_else(|| AskError::Denied("it gave the user no token".to_owned()))?);
        Ok(())
    }

    fn ask_one(&self, server: &HostPort, what: &str, body: &Value) -> Result<Value, AskError> {
        let lost = |error: ureq::Error| AskError::Lost(printable(&error.to_string()).into_owned());
        let mut request = self.agent.post(format!("{}://{server}/v3/{what}", self.scheme));
        if let Some(token) = &*self.token() {
            request = request.header("Authorization", token);
        }
        let mut response = request.send(body.to_string()).map_err(lost)?;
        let status = response.status();
        let text = response.body_mut().read_to_string().map_err(lost)?;
        let Ok(answer) = serde_json::from_str::<Value>(&text) else {
            return Err(AskError::Lost(format!(
                "not an etcd: it answers {status} with {} bytes of text",
                text.len()
            )));
        };
        if status.is_success() {
            return Ok(answer);
        }
        let why = format!("{status}: {}", message(&answer));
        let is_denied =
            matches!(status.as_u16(), 401 | 403) || what == "auth/authenticate" || needs_user(&answer);
        Err(if is_denied { AskError::Denied(why) } else { AskError::Lost(why) })
    }

    fn unexpected(&self, answer: &Value) -> EtcdError {
        let answer = shortened(&answer.to_string());
        EtcdError::NoAnswer { why: format!("{}: unexpected answer: {answer}", listed(&self.servers)) }
    }
}

/// Returns the message of an error of etcd.
fn message(answer: &Value) -> String {
    let found = ["message", "error"].iter().find_map(|key| answer[key].as_str());
    shortened(found.unwrap_or("no message"))
}

/// Returns whether etcd requires a user: without one it reports an empty user name, as an invalid argument.
fn needs_user(answer: &Value) -> bool {
    message(answer).contains("user name is empty")
}

/// Returns the beginning of a text from another machine, with control characters escaped.
fn shortened(text: &str) -> String {
    const SHOWN_MAX: usize = 200;
    let beginning: String = text.chars().take(SHOWN_MAX).collect();
    printable(&beginning).into_owned()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn decoded(value: &Value) -> Option<String> {
    String::from_utf8(BASE64.decode(value.as_str()?).ok()?).ok()
}
