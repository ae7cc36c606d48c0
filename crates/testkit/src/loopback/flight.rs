//! Posts in progress in a [`Loopback`](super::Loopback). Posted verbs continue even if their future is dropped.
//!
//! A post whose future is dropped before it is answered becomes detached, as does a detached post that does not end at
//! once. Detached posts continue whenever any client acts. Later posts of the same connection wait for them, as in a
//! queue pair.

use super::World;
use super::time::YieldOnce;
use farwood_fabric::{ClientId, Doorbell, FabricError};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

type Work = Pin<Box<dyn Future<Output = Result<Doorbell, FabricError>>>>;

/// The numbers of a connection and of one of its posts.
pub(super) type PostId = (u64, u64);

/// A post in progress whose future was dropped.
pub(super) struct DetachedPost {
    id: PostId,
    work: Work,
}

/// A post in progress.
pub(super) struct Flight {
    world: Rc<World>,
    id: PostId,
    /// `None` when the post has ended.
    work: Option<Work>,
}

impl Flight {
    /// Posts a doorbell of connection `connection`.
    pub(super) fn new(world: &Rc<World>, connection: u64, by: ClientId, mut doorbell: Doorbell) -> Self {
        let number = {
            let mut state = world.state.borrow_mut();
            state.posts += 1;
            state.posts
        };
        let id = (connection, number);
        let device = Rc::clone(world);
        let work = async move {
            while device.state.borrow().detached_ids.range((connection, 0)..id).next().is_some() {
                YieldOnce::new(&device).await;
            }
            device.execute(by, &mut doorbell).await?;
            Ok(doorbell)
        };
        Self { world: Rc::clone(world), id, work: Some(Box::pin(work)) }
    }

    /// The answer, if the post ends at once; otherwise the post becomes detached.
    pub(super) fn finish_or_detach(mut self) -> Option<Result<Doorbell, FabricError>> {
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
            state.detached_ids.insert(self.id);
            state.detached.push(DetachedPost { id: self.id, work });
        }
    }
}

impl World {
    /// Polls every detached post. A detached post that acts calls this function, too, and finds none.
    pub(super) fn poll_detached(&self) {
        let detached = std::mem::take(&mut self.state.borrow_mut().detached);
        let mut left = Vec::with_capacity(detached.len());
        for mut post in detached {
            match post.work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                // Its client has received its error, if any.
                Poll::Ready(_) => {
                    self.state.borrow_mut().detached_ids.remove(&post.id);
                }
                Poll::Pending => left.push(post),
            }
        }
        let mut state = self.state.borrow_mut();
        left.append(&mut state.detached);
        state.detached = left;
    }
}
