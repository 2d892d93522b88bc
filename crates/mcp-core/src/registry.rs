//! Collections of items that a server offers: declared without a service, then bound to one.

use std::marker::PhantomData;
use std::sync::Arc;

/// The definition of a tool, a resource, a prompt or a method: the part of it that is known without its service.
pub trait Definition {
    /// An item together with its service.
    type Bound: ?Sized;
    /// The word for one item.
    const NOUN: &'static str;
    /// The name or URI that is unique among the items.
    fn id(&self) -> &str;
}

/// The group of items that are declared outside of a group.
pub(crate) const UNGROUPED: &str = "default";

/// The items that work on a service of type `S`, in the order in which they are listed.
pub struct Registry<D: Definition, S> {
    pub(crate) items: Vec<Item<D, S>>,
}

/// One item without its service.
pub(crate) struct Item<D: Definition, S> {
    pub(crate) group: &'static str,
    pub(crate) definition: D,
    pub(crate) bind: Box<Bind<D, S>>,
}

/// Gives an item its service.
type Bind<D, S> = dyn Fn(Arc<S>) -> Arc<<D as Definition>::Bound> + Send + Sync;

/// Items that are bound to a service, each with its definition.
pub type BoundItems<D> = Vec<(D, Arc<<D as Definition>::Bound>)>;

impl<D: Definition, S> Registry<D, S> {
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
        definition: D,
        bind: impl Fn(Arc<S>) -> Arc<D::Bound> + Send + Sync + 'static,
    ) -> Self {
        self.push(Item {
            group: UNGROUPED,
            definition,
            bind: Box::new(bind),
        })
    }

    pub(crate) fn push(mut self, item: Item<D, S>) -> Self {
        let id = item.definition.id();
        let mut ids = self.items.iter().map(|item| item.definition.id());
        let is_free = ids.all(|other| other != id);
        assert!(is_free, "{} {id} is declared twice", D::NOUN);
        self.items.push(item);
        self
    }

    /// Keeps the items that `is_kept`.
    pub(crate) fn keep(mut self, is_kept: impl Fn(&Item<D, S>) -> bool) -> Self {
        self.items.retain(is_kept);
        self
    }

    /// Gives the items their service.
    pub fn bind(self, service: &Arc<S>) -> BoundItems<D> {
        let bind = |item: Item<D, S>| (item.definition, (item.bind)(Arc::clone(service)));
        self.items.into_iter().map(bind).collect()
    }
}

impl<D: Definition, S> Default for Registry<D, S> {
    fn default() -> Self {
        Self::new()
    }
}

/// The item with a definition `D` that `T` declares, together with its service.
pub(crate) struct Bound<D, T, S> {
    pub(crate) service: Arc<S>,
    declared: PhantomData<fn() -> (D, T)>,
}

impl<D, T, S> Bound<D, T, S> {
    pub(crate) fn new(service: Arc<S>) -> Self {
        Self {
            service,
            declared: PhantomData,
        }
    }
}
