//! The threads of one process: each has its own clients and waits for orders.

use std::io::Write;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};

use farwood_transport::heap::into_huge_pages;

use super::protocol::{Order, Report, Round};
use super::spec::Amount;
use super::worker::Parent;
use crate::clock::Clock;
use crate::measure::Measurement;
use crate::{Error, Result};

/// The clients of one thread.
pub(crate) trait Hand {
    /// Visits everything once.
    fn pass(&mut self) -> Result<()>;

    /// Reads its share of what fills caches that a pass does not fill.
    fn fill(&mut self) -> Result<()> {
        Ok(())
    }

    /// Warms caches with reads of the keys that the clients will ask for.
    fn warm_up(&mut self, seconds: f64) -> Result<()>;

    /// Works, and measures it. Every client does `amount`.
    fn work(&mut self, amount: Amount) -> Result<Measurement>;
}

/// What a thread is told.
#[derive(Clone, Copy)]
enum Call {
    Pass,
    Fill,
    WarmUp(f64),
    Work(Amount),
}

/// A thread of the team.
struct Member {
    calls: Sender<Call>,
    answers: Receiver<Result<Round>>,
}

/// Runs `threads` threads, each with the hand that `make` makes on it, and follows the parent's orders. `bytes` says
/// what the process has in use after a round.
pub(crate) fn serve<H: Hand, W: Write>(
    parent: &mut Parent<W>,
    threads: usize,
    clients_of_run: u64,
    make: impl Fn(usize) -> Result<H> + Sync,
    bytes: impl Fn() -> Option<u64>,
) -> Result<()> {
    thread::scope(|scope| {
        let make = &make;
        let members: Vec<Member> = (0..threads).map(|number| Member::start(scope, number, make)).collect();
        for member in &members {
            member.answer()?;
        }
        parent.report(&Report::Ready)?;
        loop {
            match parent.order()? {
                Order::End => return Ok(()),
                Order::WarmUp(seconds) => {
                    call(&members[..1], Call::Pass)?;
                    call(&members, Call::Fill)?;
                    call(&members, Call::WarmUp(seconds))?;
                    // What is warm now is looked at in no order. Where there are no huge pages it is slower, and that
                    // is all.
                    let _ = into_huge_pages();
                    parent.report(&Report::Warm)?;
                }
                Order::Go(amount) => {
                    let mut round = call(&members, Call::Work(share(amount, clients_of_run)))?;
                    round.bytes = bytes();
                    parent.report(&Report::Measured(round))?;
                }
            }
        }
    })
}

/// One client's share of the operations of a run, at least one.
fn share(amount: Amount, clients: u64) -> Amount {
    match amount {
        Amount::Operations(operations) => Amount::Operations(operations.div_ceil(clients)),
        seconds @ Amount::Seconds(_) => seconds,
    }
}

/// Calls all members at once, and puts their answers together.
fn call(members: &[Member], call: Call) -> Result<Round> {
    for member in members {
        // A thread that is gone has said why: the answer below is its error.
        let _ = member.calls.send(call);
    }
    let mut all = Round::default();
    for member in members {
        let round = member.answer()?;
        all.measurement.merge(&round.measurement);
        all.seconds = all.seconds.max(round.seconds);
    }
    Ok(all)
}

impl Member {
    fn start<'s, H: Hand>(
        scope: &'s Scope<'s, '_>,
        number: usize,
        make: &'s (impl Fn(usize) -> Result<H> + Sync),
    ) -> Member {
        let (calls, orders) = mpsc::channel();
        let (reports, answers) = mpsc::channel();
        scope.spawn(move || attend(make(number), &orders, &reports));
        Member { calls, answers }
    }

    fn answer(&self) -> Result<Round> {
        let gone = || Error::WrongAnswer("a thread of the run panicked; its message is above".to_owned());
        self.answers.recv().map_err(|_| gone())?
    }
}

/// The life of one thread.
fn attend<H: Hand>(hand: Result<H>, orders: &Receiver<Call>, answers: &Sender<Result<Round>>) {
    let mut hand = match hand {
        Ok(hand) => hand,
        Err(error) => {
            let _ = answers.send(Err(error));
            return;
        }
    };
    let _ = answers.send(Ok(Round::default()));
    while let Ok(order) = orders.recv() {
        let clock = Clock::new();
        let done = match order {
            Call::Pass => hand.pass().map(|()| Measurement::new()),
            Call::Fill => hand.fill().map(|()| Measurement::new()),
            Call::WarmUp(seconds) => hand.warm_up(seconds).map(|()| Measurement::new()),
            Call::Work(amount) => hand.work(amount),
        };
        let seconds = clock.now() as f64 / 1e9;
        let _ = answers.send(done.map(|measurement| Round { measurement, seconds, bytes: None }));
    }
}
