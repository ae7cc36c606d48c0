//! The part of a spatial server that answers requests over sockets, with one thread per connection.

use super::server::Serving;
use farwood_fabric::Server as _;
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::exchange::{CONNECTIONS_MAX, SocketSettings, answer_requests};
use std::sync::atomic::AtomicBool;

/// The divisor for the memory that incomplete requests may use: they may use the size of the node's memory divided by
/// this number, in addition to the node's memory. A rectangle has 40 B in a request, and about 70 B in the tree.
const REQUESTS_SHARE: usize = 2;
/// The memory that incomplete requests may use if the memory node is small.
const REQUEST_BYTES_MIN: usize = 64 << 20;

impl Serving<'_> {
    /// Answers requests on the listener, if there is one, until `ended` is set.
    pub(super) fn serve_sockets(&self, ended: &AtomicBool) {
        let Some(listener) = &self.options.listener else { return };
        let memory_bytes = self.spatial.memory_bytes() as usize;
        let settings = SocketSettings {
            connections_max: CONNECTIONS_MAX,
            tokens: self.options.token.as_ref(),
            request_bytes_max: (memory_bytes / REQUESTS_SHARE).max(REQUEST_BYTES_MIN),
        };
        // If the listener fails, connections that are open stay open.
        let _ = answer_requests(&settings, listener, ended, || {
            let (client, server) = (self.spatial.client(), self.spatial.server_role(self.options));
            let membership = self.threads.sockets.join();
            move |request: &[u64], response: &mut Vec<u64>| {
                let _ = &membership;
                let Ok(server) = &server else { return false };
                response.push(self.service.pulse());
                let worker = self.tree.worker(&client, server);
                block_on(async {
                    worker.answer(request, response).await.is_ok() && server.settle().await.is_ok()
                })
            }
        });
    }
}
