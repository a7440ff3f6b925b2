//! Listening to a Modern server: listens are held for what it tells of, and replaced when that changes.

use std::future::pending;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::backoff::Backoff;
use super::beginning::Beginning;
use super::listen::{End, Listen};
use super::step::{self, Step};
use crate::defaults;
use crate::upstream::connection::Connection;
use crate::upstream::endpoint::Timeouts;
use crate::upstream::error::Error;
use crate::upstream::listen_filter::Filter;
use crate::upstream::news::Notice;
use crate::upstream::pause::jittered;
use crate::upstream::subscriptions::{Standing, Version};

/// Holds listens. It never resolves: what a listen comes to says too little of the connection to give that up.
pub(super) async fn listen(connection: &Connection, timeouts: Timeouts, beginning: &Beginning) -> Error {
    let mut listener = Listener {
        connection,
        timeouts,
        held: Vec::new(),
        declined: None,
        interrupted: false,
        backoff: Backoff::new(),
        changes: connection.known().subscriptions.changes(),
    };
    while !listener.is_done_with(beginning).await {}
    tracing::debug!("the server has no subscriptions/listen; its lists are read when they are old");
    drop(std::mem::take(&mut listener.held));
    let subscriptions = &connection.known().subscriptions;
    let mut changes = subscriptions.changes();
    loop {
        changes.borrow_and_update();
        for uri in subscriptions.wanted().into_keys() {
            let why = "the server has no subscriptions/listen";
            subscriptions.settle(&uri, Standing::Refused(why.into()));
        }
        if changes.changed().await.is_err() {
            return pending().await;
        }
    }
}

struct Listener<'c> {
    connection: &'c Connection,
    timeouts: Timeouts,
    /// The listens that were acknowledged, while they last.
    held: Vec<Listen<'c>>,
    /// What the server agreed to nothing of.
    declined: Option<Filter>,
    /// A listen for lists was lost, and none has taken its place yet.
    interrupted: bool,
    backoff: Backoff,
    changes: watch::Receiver<Version>,
}

/// What came of beginning a listen.
enum Begun {
    Acknowledged(Option<Filter>),
    Ended(End),
}

impl<'c> Listener<'c> {
    /// Does what is to be done next: waits for a reason to change something, or begins a listen. True if the server has
    /// no such thing.
    async fn is_done_with(&mut self, beginning: &Beginning) -> bool {
        self.changes.borrow_and_update();
        let wanted = self.wanted();
        let subscriptions = &self.connection.known().subscriptions;
        subscriptions.settle_again(|uri| self.held.iter().any(|listen| listen.filter.has(uri)));
        let step = step::next(self.held.iter().map(|listen| (listen.id, &listen.filter)), &wanted);
        let is_declined = self.declined.as_ref() == Some(&step.filter);
        if step.filter.is_empty() || is_declined {
            self.held.retain(|listen| !step.instead_of.contains(&listen.id));
            if is_declined {
                self.refuse_new("the server does not tell of this resource");
            }
            beginning.settle(self.connection);
            self.wait_for_change().await;
            return false;
        }
        match self.begin(step).await {
            Some(Begun::Acknowledged(_)) => {}
            Some(Begun::Ended(End::NotServed)) => {
                beginning.settle(self.connection);
                return true;
            }
            Some(Begun::Ended(End::Refused(why))) if self.refuse_new(&why) => {}
            Some(Begun::Ended(_)) | None => {
                beginning.settle(self.connection);
                self.rest().await;
            }
        }
        beginning.settle(self.connection);
        false
    }

    fn wanted(&self) -> Filter {
        let resources = self.connection.known().subscriptions.wanted();
        let resources = resources.into_keys().map(|uri| uri.to_string());
        Filter::of(&self.connection.peer().capabilities, resources.collect())
    }

    /// Waits until the listen ends, or something else is wanted.
    async fn wait_for_change(&mut self) {
        let changed = self.changes.changed();
        tokio::select! {
            lost = Listen::first_ended(&mut self.held) => {
                self.lose(&lost);
                self.rest().await;
            }
            _ = changed => {
                // Many come at once, when a client with many subscriptions arrives.
                self.sleep_until(Instant::now() + defaults::COALESCE).await;
            }
        }
    }

    /// Begins a listen while those in whose place it is are still heard, and lets them go once the server agreed. `None`:
    /// it did not say so in time.
    async fn begin(&mut self, step: Step) -> Option<Begun> {
        let mut next = Listen::new(self.connection, step.filter.clone());
        let words = self.connection.words();
        let deadline = Instant::now() + self.timeouts.word();
        let begun = loop {
            tokio::select! {
                // An acknowledgement counts, even if the end came with it.
                biased;
                agreed = words.acknowledged(next.id) => break Begun::Acknowledged(agreed),
                end = next.ended() => break Begun::Ended(end),
                lost = Listen::first_ended(&mut self.held) => self.lose(&lost),
                () = sleep_until(deadline) => return None,
            }
        };
        if let Begun::Acknowledged(agreed) = &begun {
            let agreed = agreed.as_ref().unwrap_or(&step.filter);
            self.agreed(next, agreed, &step.instead_of);
        }
        Some(begun)
    }

    /// The server agreed to this of what `listen` asks for, which takes the place of those with the ids in `instead_of`.
    fn agreed(&mut self, mut listen: Listen<'c>, agreed: &Filter, instead_of: &[u64]) {
        let known = self.connection.known();
        let before = known.subscriptions.wanted();
        let is_held = |uri: &str| self.held.iter().any(|listen| listen.filter.has(uri));
        for uri in &listen.filter.resource_subscriptions {
            if !agreed.resource_subscriptions.contains(uri) {
                let why = "the server does not tell of this resource";
                known.subscriptions.settle(uri, Standing::Refused(why.into()));
                continue;
            }
            known.subscriptions.settle(uri, Standing::Accepted);
            let was_accepted = before.get(uri.as_str()).copied().unwrap_or_default();
            if was_accepted && !is_held(uri) {
                known.news.resource_changed(Notice::of(&Arc::from(uri.as_str())));
            }
        }
        if listen.filter.has_lists() && std::mem::take(&mut self.interrupted) {
            known.news.lists_may_have_changed();
        }
        let accepted = |uri: &String| agreed.resource_subscriptions.contains(uri);
        listen.filter.resource_subscriptions.retain(accepted);
        self.held.retain(|listen| !instead_of.contains(&listen.id));
        if agreed.is_empty() {
            self.declined = Some(listen.filter);
        } else {
            self.held.push(listen);
        }
    }

    /// A listen is refused for the resources that were not in the one before. False if there are none.
    fn refuse_new(&self, why: &str) -> bool {
        let subscriptions = &self.connection.known().subscriptions;
        let wanted = subscriptions.wanted().into_iter();
        let new: Vec<_> = wanted.filter(|(_, was_accepted)| !was_accepted).collect();
        for (uri, _) in &new {
            subscriptions.settle(uri, Standing::Refused(why.into()));
        }
        !new.is_empty()
    }

    /// A listen has ended.
    fn lose(&mut self, lost: &Listen<'_>) {
        if lost.begun.elapsed() >= defaults::STREAM_OF_USE {
            self.backoff.was_of_use();
        }
        self.interrupted |= lost.filter.has_lists();
    }

    /// Waits before the next try.
    async fn rest(&mut self) {
        let pause = self.backoff.after_failure();
        self.sleep_until(Instant::now() + jittered(pause)).await;
    }

    /// Sleeps, with one ear on the listens that there are.
    async fn sleep_until(&mut self, deadline: Instant) {
        loop {
            tokio::select! {
                lost = Listen::first_ended(&mut self.held) => self.lose(&lost),
                () = sleep_until(deadline) => return,
            }
        }
    }
}
