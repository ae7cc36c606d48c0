//! Trees of every kind as the testkit's checks see them: what is asked of one, and one that is chosen at run time.

use crate::sherman::Span;
use farwood_fabric::{Client, Fabric};
use farwood_index::IndexError;
use farwood_index::sabotage::Sabotage;
use farwood_index::sherman::{self, Sherman};
use farwood_index::smart::{self, Smart};
use farwood_testkit::history::{Action, Answer, Bytes};

/// What every tree does.
#[expect(async_fn_in_trait, reason = "clients belong to one thread")]
pub trait Tree {
    /// Performs one operation.
    async fn perform<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        action: &Action,
    ) -> Result<Answer, IndexError>;

    /// Scans a span.
    async fn scan_span<F: Fabric>(
        &self,
        client: &Client<F>,
        span: &Span,
    ) -> Result<Vec<(Bytes, Bytes)>, IndexError>;

    /// How many keys there are.
    async fn count_all<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError>;

    /// Gives back the memory that the compute node does not use.
    async fn leave_all<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError>;
}

macro_rules! tree {
    ($tree:ty, $entries:expr) => {
        impl Tree for $tree {
            async fn perform<F: Fabric>(
                &self,
                client: &Client<F>,
                key: &[u8],
                action: &Action,
            ) -> Result<Answer, IndexError> {
                Ok(match action {
                    Action::Put(value) => Answer::Stored { existed: self.put(client, key, value).await? },
                    Action::Insert(value) => Answer::Done(self.insert(client, key, value).await?),
                    Action::Update(value) => Answer::Done(self.update(client, key, value).await?),
                    Action::Remove => Answer::Done(self.remove(client, key).await?),
                    Action::Get => Answer::Found(self.get(client, key).await?.map(|value| value.to_vec())),
                })
            }

            async fn scan_span<F: Fabric>(
                &self,
                client: &Client<F>,
                span: &Span,
            ) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
                let mut entries = $entries;
                self.scan(client, span.range(), span.tree_direction(), span.limit, &mut entries).await?;
                Ok(entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
            }

            async fn count_all<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
                self.count(client).await
            }

            async fn leave_all<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
                self.leave(client).await
            }
        }
    };
}

tree!(Sherman, sherman::Entries::new());
tree!(Smart, smart::Entries::new());

/// A tree whose kind is chosen at run time.
#[derive(Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Any {
    Sherman(Sherman),
    Smart(Smart),
}

/// What a tree is created as.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum AnyConfig {
    Sherman(sherman::Config),
    Smart(smart::Config),
}

macro_rules! either {
    ($tree:expr, $each:ident => $what:expr) => {
        match $tree {
            Any::Sherman($each) => $what,
            Any::Smart($each) => $what,
        }
    };
}

impl Tree for Any {
    async fn perform<F: Fabric>(
        &self,
        client: &Client<F>,
        key: &[u8],
        action: &Action,
    ) -> Result<Answer, IndexError> {
        either!(self, tree => tree.perform(client, key, action).await)
    }

    async fn scan_span<F: Fabric>(
        &self,
        client: &Client<F>,
        span: &Span,
    ) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        either!(self, tree => tree.scan_span(client, span).await)
    }

    async fn count_all<F: Fabric>(&self, client: &Client<F>) -> Result<u64, IndexError> {
        either!(self, tree => tree.count(client).await)
    }

    async fn leave_all<F: Fabric>(&self, client: &Client<F>) -> Result<(), IndexError> {
        either!(self, tree => tree.leave(client).await)
    }
}

/// What a walker saw, whatever it walked.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Walked {
    Sherman(sherman::Walk),
    Smart(smart::Walk),
}

impl Walked {
    /// Keys.
    pub fn entries(&self) -> u64 {
        match self {
            Self::Sherman(walk) => walk.entries,
            Self::Smart(walk) => walk.entries,
        }
    }

    /// Violated invariants.
    pub fn problems(&self) -> &[sherman::Problem] {
        match self {
            Self::Sherman(walk) => &walk.problems,
            Self::Smart(walk) => &walk.problems,
        }
    }

    /// Nodes that no parent names, or what else was left half-way.
    pub fn half_linked(&self) -> u64 {
        match self {
            Self::Sherman(walk) => walk.half_linked,
            Self::Smart(walk) => walk.unsettled,
        }
    }

    /// Levels of the tree.
    pub fn levels(&self) -> usize {
        match self {
            Self::Sherman(walk) => walk.nodes.len(),
            Self::Smart(walk) => walk.height as usize,
        }
    }
}

impl Any {
    /// Scans a span at one moment, where the tree can.
    ///
    /// # Errors
    /// The index's.
    pub async fn snapshot_span<F: Fabric>(
        &self,
        client: &Client<F>,
        span: &Span,
    ) -> Result<Vec<(Bytes, Bytes)>, IndexError> {
        let Self::Sherman(tree) = self else { return self.scan_span(client, span).await };
        let mut entries = sherman::Entries::new();
        let (range, direction) = (span.range(), span.tree_direction());
        match tree.scan_snapshot(client, range, direction, span.limit, &mut entries).await {
            Ok(()) => Ok(entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()),
            Err(IndexError::NoSnapshot(_)) => self.scan_span(client, span).await,
            Err(error) => Err(error),
        }
    }

    /// Creates a tree.
    ///
    /// # Errors
    /// The index's.
    pub async fn create<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: AnyConfig,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        Ok(match config {
            AnyConfig::Sherman(config) => {
                Self::Sherman(Sherman::create(client, name, config, cache_bytes).await?)
            }
            AnyConfig::Smart(config) => Self::Smart(Smart::create(client, name, config, cache_bytes).await?),
        })
    }

    /// Opens a tree that was created as `config` says.
    ///
    /// # Errors
    /// The index's.
    pub async fn open<F: Fabric>(
        client: &Client<F>,
        name: &str,
        config: AnyConfig,
        cache_bytes: usize,
    ) -> Result<Self, IndexError> {
        Ok(match config {
            AnyConfig::Sherman(_) => Self::Sherman(Sherman::open(client, name, cache_bytes).await?),
            AnyConfig::Smart(_) => Self::Smart(Smart::open(client, name, cache_bytes).await?),
        })
    }

    /// Walks the tree.
    ///
    /// # Errors
    /// The fabric's.
    pub async fn walk<F: Fabric>(&self, client: &Client<F>) -> Result<Walked, IndexError> {
        Ok(match self {
            Self::Sherman(tree) => Walked::Sherman(tree.walk(client).await?),
            Self::Smart(tree) => Walked::Smart(tree.walk(client).await?),
        })
    }

    /// Held locks that were dropped.
    pub fn locks_dropped(&self) -> u64 {
        either!(self, tree => tree.locks_dropped())
    }

    /// Locks that the compute node may have although no client of it holds them.
    pub fn locks_in_doubt(&self) -> usize {
        either!(self, tree => tree.locks_in_doubt())
    }

    /// Breaks the tree on purpose.
    pub fn sabotage(&mut self, sabotage: Sabotage) {
        either!(self, tree => tree.sabotage(sabotage));
    }
}
