//! Lists: read page by page, as a stream.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::connect::Client;
use super::error::ClientError;
use super::transport::Ask;

/// A list on the server, not read yet.
#[derive(Debug)]
pub struct List<T> {
    client: Client,
    ask: Ask,
    page_size: Option<usize>,
    items: std::marker::PhantomData<fn() -> T>,
}

/// The items of a list; reads the next page on demand.
pub struct Listing<T> {
    items: BoxStream<'static, Result<T, ClientError>>,
}

#[derive(Debug, Deserialize)]
struct Page<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl<T: DeserializeOwned + Send + 'static> List<T> {
    pub(crate) fn new(client: &Client, ask: Ask) -> Self {
        Self { client: client.clone(), ask, page_size: None, items: std::marker::PhantomData }
    }

    pub(crate) fn query(self, name: &'static str, value: impl ToString) -> Self {
        Self { ask: self.ask.query(name, value), ..self }
    }

    /// Number of items per page; the server has a default.
    #[must_use]
    pub fn page_size(mut self, items: usize) -> Self {
        self.page_size = Some(items);
        self
    }

    /// All items, as they are read. Ends after the first error.
    pub fn stream(self) -> Listing<T> {
        let ask = match self.page_size {
            Some(items) => self.ask.query("limit", items),
            None => self.ask,
        };
        let pages = Pages { client: self.client, ask, place: Place::First };
        let items = futures::stream::try_unfold(pages, Pages::next)
            .map_ok(|items| futures::stream::iter(items.into_iter().map(Ok)))
            .try_flatten();
        Listing { items: items.boxed() }
    }

    /// All items at once.
    pub async fn all(self) -> Result<Vec<T>, ClientError> {
        self.stream().try_collect().await
    }
}

/// Awaiting a list collects all of its items.
impl<T: DeserializeOwned + Send + 'static> IntoFuture for List<T> {
    type Output = Result<Vec<T>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.all())
    }
}

#[derive(Debug)]
struct Pages {
    client: Client,
    ask: Ask,
    place: Place,
}

#[derive(Debug)]
enum Place {
    First,
    After(String),
    End,
}

impl Pages {
    async fn next<T: DeserializeOwned>(self) -> Result<Option<(Vec<T>, Self)>, ClientError> {
        let ask = match &self.place {
            Place::First => self.ask.clone(),
            Place::After(cursor) => self.ask.clone().query("cursor", cursor),
            Place::End => return Ok(None),
        };
        let page: Page<T> = self.client.ask(&ask).await?.json()?;
        let place = page.next_cursor.map_or(Place::End, Place::After);
        Ok(Some((page.items, Self { place, ..self })))
    }
}

impl<T> Listing<T> {
    /// The next item, without importing the trait `Stream`.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        self.items.next().await
    }
}

impl<T> Stream for Listing<T> {
    type Item = Result<T, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(cx)
    }
}

impl<T> std::fmt::Debug for Listing<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}
