//! Collections of items that a server offers: declared without a service, then bound to one.

use std::marker::PhantomData;
use std::sync::Arc;

/// A kind of item: tool, resource, prompt or method.
pub trait ItemKind {
    /// The part of an item that is known without its service.
    type Definition;
    /// An item together with its service.
    type Bound: ?Sized;
    /// The word for one item.
    const NOUN: &'static str;
    /// The name or URI that is unique among the items.
    fn id(definition: &Self::Definition) -> &str;
}

/// The group of items that are declared outside of a group.
pub(crate) const UNGROUPED: &str = "default";

/// The items that work on a service of type `S`, in the order in which they are listed.
pub struct Registry<K: ItemKind, S> {
    pub(crate) items: Vec<Item<K, S>>,
}

/// One item without its service.
pub(crate) struct Item<K: ItemKind, S> {
    pub(crate) group: &'static str,
    pub(crate) definition: K::Definition,
    pub(crate) bind: Box<Bind<K, S>>,
}

/// Gives an item its service.
pub(crate) type Bind<K, S> = dyn Fn(Arc<S>) -> Arc<<K as ItemKind>::Bound> + Send + Sync;

/// Items that are bound to a service, each with its definition.
pub type BoundItems<K> = Vec<(<K as ItemKind>::Definition, Arc<<K as ItemKind>::Bound>)>;

impl<K: ItemKind, S> Registry<K, S> {
    /// An empty registry.
    pub fn new() -> Self {
        Self { items: Vec::new() }
    }

    /// Adds an item; `bind` gives it its service.
    ///
    /// # Panics
    /// If its name is taken; the first test finds that.
    pub(crate) fn add(
        self,
        definition: K::Definition,
        bind: impl Fn(Arc<S>) -> Arc<K::Bound> + Send + Sync + 'static,
    ) -> Self {
        self.push(Item {
            group: UNGROUPED,
            definition,
            bind: Box::new(bind),
        })
    }

    pub(crate) fn push(mut self, item: Item<K, S>) -> Self {
        let id = K::id(&item.definition);
        let mut ids = self.items.iter().map(|item| K::id(&item.definition));
        let is_free = ids.all(|other| other != id);
        assert!(is_free, "{} {id} is declared twice", K::NOUN);
        self.items.push(item);
        self
    }

    /// Keeps the items that `is_kept`.
    pub(crate) fn keep(mut self, is_kept: impl Fn(&Item<K, S>) -> bool) -> Self {
        self.items.retain(is_kept);
        self
    }

    /// Gives the items their service.
    pub fn bind(self, service: &Arc<S>) -> BoundItems<K> {
        let bind = |item: Item<K, S>| (item.definition, (item.bind)(Arc::clone(service)));
        self.items.into_iter().map(bind).collect()
    }
}

impl<K: ItemKind, S> Default for Registry<K, S> {
    fn default() -> Self {
        Self::new()
    }
}

/// The item of kind `K` that `T` declares, together with its service.
pub(crate) struct Bound<K, T, S> {
    pub(crate) service: Arc<S>,
    declared: PhantomData<fn() -> (K, T)>,
}

impl<K, T, S> Bound<K, T, S> {
    pub(crate) fn new(service: Arc<S>) -> Self {
        Self {
            service,
            declared: PhantomData,
        }
    }
}
