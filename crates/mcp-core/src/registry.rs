//! The items of one kind that a server offers: declared without a service, then bound to one.

use std::marker::PhantomData;
use std::sync::Arc;

/// A kind of items: tools, resources, prompts, methods.
pub trait ItemKind {
    /// The declaration of an item, known without its service.
    type ToolDefinition;
    /// An item together with the service that it works on.
    type Bound: ?Sized;
    /// The word for one item.
    const NOUN: &'static str;
    /// The key that is unique among the items.
    fn id(definition: &Self::ToolDefinition) -> &str;
}

/// The group of what is declared outside of any.
pub(crate) const UNGROUPED: &str = "default";

/// The items that work on a service of type `S`, in the order in which they are listed.
pub struct Registry<K: ItemKind, S> {
    items: Vec<Item<K, S>>,
}

/// One item without its service.
pub(crate) struct Item<K: ItemKind, S> {
    pub(crate) group: &'static str,
    pub(crate) definition: K::ToolDefinition,
    pub(crate) bind: fn(Arc<S>) -> Arc<K::Bound>,
}

/// The items that a service offers, each with what is known about it.
pub type BoundItems<K> = Vec<(<K as ItemKind>::ToolDefinition, Arc<<K as ItemKind>::Bound>)>;

impl<K: ItemKind, S> Registry<K, S> {
    /// No items.
    pub fn new() -> Self {
        Self { items: Vec::new() }
    }

    /// Adds one item, which `bind` hands its service.
    ///
    /// # Panics
    /// When its name is taken: found by the first test.
    pub(crate) fn add(
        self,
        definition: K::ToolDefinition,
        bind: fn(Arc<S>) -> Arc<K::Bound>,
    ) -> Self {
        self.push(Item {
            group: UNGROUPED,
            definition,
            bind,
        })
    }

    pub(crate) fn push(mut self, item: Item<K, S>) -> Self {
        let id = K::id(&item.definition);
        let mut ids = self.items.iter().map(|item| K::id(&item.definition));
        assert!(
            ids.all(|other| other != id),
            "{} {id} is declared twice",
            K::NOUN
        );
        self.items.push(item);
        self
    }

    pub(crate) fn items(&self) -> &[Item<K, S>] {
        &self.items
    }

    pub(crate) fn into_items(self) -> Vec<Item<K, S>> {
        self.items
    }

    /// Keeps the items that `is_kept`.
    pub(crate) fn keep(mut self, is_kept: impl Fn(&Item<K, S>) -> bool) -> Self {
        self.items.retain(is_kept);
        self
    }

    /// Hands the items their service.
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

/// The declaration `T` of an item of kind `K`, together with its service.
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
