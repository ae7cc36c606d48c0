//! The part of a spatial server that answers requests over sockets, with one thread per connection.

use super::server::Serving;
use farwood_transport::runtime::block_on;
use farwood_transport::tcp::exchange::{CONNECTIONS_MAX, answer_requests};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

impl Serving<'_> {
    /// Answers requests on the listener, if there is one, until `ended` is set.
    pub(super) fn serve_sockets(&self, ended: &AtomicBool) {
        let Some(listener) = &self.options.listener else { return };
        let token = self.options.token.as_ref();
        // If the listener fails, connections that are open stay open.
        let _ = answer_requests(CONNECTIONS_MAX, listener, token, ended, || {
            let (client, server) = (self.spatial.client(), self.spatial.server_role(self.options));
            move |request: &[u64], response: &mut Vec<u64>| {
                let Ok(server) = &server else { return false };
                let begun = Instant::now();
                response.push(self.service.pulse());
                let answered = block_on(self.tree.worker(&client, server).answer(request, response));
                self.service.note_work(begun.elapsed().as_nanos() as u64);
                answered.is_ok()
            }
        });
    }
}
