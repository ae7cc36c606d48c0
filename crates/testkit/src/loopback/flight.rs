//! Posts under way in a [`Loopback`](super::Loopback): verbs that were handed over go on, whoever waits for them.
//!
//! A post that is dropped before it is answered becomes an orphan, and so does a detached one that is not done at
//! once. Orphans go on whenever anybody does anything. Later posts of the same connection wait for them, as those
//! of one queue pair do.

use super::World;
use super::time::Turn;
use farwood_fabric::{ClientId, Doorbell, FabricError};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Work = Pin<Box<dyn Future<Output = Result<Doorbell, FabricError>>>>;

/// A connection's number and that of one of its posts.
pub(super) type PostId = (u64, u64);

/// A post that nobody waits for any more.
pub(super) struct Orphan {
    id: PostId,
    work: Work,
}

/// A post that somebody waits for.
pub(super) struct Flight {
    world: Rc<World>,
    id: PostId,
    /// None when it is done.
    work: Option<Work>,
}

impl Flight {
    /// Hands a doorbell of connection `connection` over.
    pub(super) fn new(world: &Rc<World>, connection: u64, by: ClientId, mut doorbell: Doorbell) -> Self {
        let number = {
            let mut state = world.state.borrow_mut();
            state.posts += 1;
            state.posts
        };
        let id = (connection, number);
        let device = Rc::clone(world);
        let work = async move {
            while device.state.borrow().orphaned.range((connection, 0)..id).next().is_some() {
                Turn::new(&device).await;
            }
            device.execute(by, &mut doorbell).await?;
            Ok(doorbell)
        };
        Self { world: Rc::clone(world), id, work: Some(Box::pin(work)) }
    }

    /// The answer, if the post is done at once; otherwise it is an orphan.
    pub(super) fn or_orphan(mut self) -> Option<Result<Doorbell, FabricError>> {
        match Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }
}

impl Future for Flight {
    type Output = Result<Doorbell, FabricError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.work.as_mut().expect("polled until it is done");
        let polled = work.as_mut().poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            let mut state = self.world.state.borrow_mut();
            state.orphaned.insert(self.id);
            state.orphans.push(Orphan { id: self.id, work });
        }
    }
}

impl World {
    /// Lets every orphan go on a little. Orphans that do something themselves come here, too, and find none.
    pub(super) fn step_orphans(&self) {
        let orphans = std::mem::take(&mut self.state.borrow_mut().orphans);
        let mut left = Vec::with_capacity(orphans.len());
        for mut orphan in orphans {
            match orphan.work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                // Whoever posted it has been told what was wrong with it, if anything was.
                Poll::Ready(_) => {
                    self.state.borrow_mut().orphaned.remove(&orphan.id);
                }
                Poll::Pending => left.push(orphan),
            }
        }
        let mut state = self.state.borrow_mut();
        left.append(&mut state.orphans);
        state.orphans = left;
    }
}
