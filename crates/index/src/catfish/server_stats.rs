//! The statistics of an index's server, which any client reads from the head.

use super::Catfish;
use super::create::{describe, find_head, layout_of};
use super::head::{HEARTBEAT, LOOKUPS, OFFLOADED, RawHead, SERVED_CONNECTIONS, SERVER, word_of};
use super::wire::heartbeat::utilisation;
use crate::error::IndexError;
use farwood_fabric::directory::Entry;
use farwood_fabric::{Chain as _, Client, Fabric, LockWord, Remote, read};

/// Statistics of a server since it began to serve an index.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerStats {
    /// The utilisation in the last heartbeat interval, 0 to 1.
    pub utilisation: f64,
    /// Lookups that the server executed.
    pub by_message: u64,
    /// Lookups that clients executed by READs, as far as they have reported them: clients that always use READs report
    /// none.
    pub offloaded: u64,
}

impl ServerStats {
    /// The share of lookups by READs.
    pub fn share_offloaded(&self) -> f64 {
        self.offloaded as f64 / (self.by_message as f64 + self.offloaded as f64).max(1.0)
    }

    /// Reads the statistics of the index in the directory entry `entry`, without opening it; `None`: there is no
    /// server, or it answers no messages. [at most 3 RT] The server may have crashed since.
    ///
    /// # Errors
    /// [`IndexError::WrongFormat`], [`IndexError::Damaged`]; the errors of the fabric.
    pub async fn read<F: Fabric>(client: &Client<F>, entry: &Entry) -> Result<Option<Self>, IndexError> {
        let layout = layout_of(client, describe(entry)?, entry.number)?;
        Self::at(client, find_head(client, entry, &layout).await?).await
    }

    /// Reads the statistics in a head. [2 RT]
    async fn at<F: Fabric>(client: &Client<F>, head: Remote<RawHead>) -> Result<Option<Self>, IndexError> {
        if !answers_messages(client, head).await? {
            return Ok(None);
        }
        let word = |offset| read(word_of(head, offset));
        let (heartbeat, (executed, offloaded)) =
            client.post(word(HEARTBEAT).then(word(LOOKUPS).then(word(OFFLOADED)))).await?;
        Ok(Some(Self {
            utilisation: utilisation(heartbeat.whole_word()).unwrap_or_default(),
            by_message: executed.whole_word(),
            offloaded: offloaded.whole_word(),
        }))
    }
}

/// Whether there is a server that has announced connections. [1 RT]
async fn answers_messages<F: Fabric>(client: &Client<F>, head: Remote<RawHead>) -> Result<bool, IndexError> {
    let word = |offset| read(word_of(head, offset));
    let (server, connections) = client.post(word(SERVER).then(word(SERVED_CONNECTIONS))).await?;
    let has_server = LockWord::from_word(server.whole_word()).holder().is_some();
    Ok(has_server && connections.whole_word() != 0)
}

impl Catfish {
    /// Whether a process has announced that it answers messages, through rings or a socket. It may have crashed since.
    /// [1 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn answers_messages<F: Fabric>(&self, client: &Client<F>) -> Result<bool, IndexError> {
        answers_messages(client, self.head).await
    }

    /// The statistics of the current server; `None`: there is no server, or it answers no messages. [2 RT]
    ///
    /// # Errors
    /// The errors of the fabric.
    pub async fn server_stats<F: Fabric>(
        &self,
        client: &Client<F>,
    ) -> Result<Option<ServerStats>, IndexError> {
        ServerStats::at(client, self.head).await
    }
}
