//! Lists: read page by page, as a stream.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::connect::Client;
use super::transport::ApiRequest;
use crate::client_error::ClientError;

/// A list on the server, not read yet.
#[derive(Debug)]
pub struct PagedList<T> {
    client: Client,
    ask: ApiRequest,
    page_size: Option<usize>,
    items: std::marker::PhantomData<fn() -> T>,
}

/// The items of a list; reads the next page on demand.
pub struct PagedStream<T> {
    items: BoxStream<'static, Result<T, ClientError>>,
}

#[derive(Debug, Deserialize)]
struct ListPage<T> {
    items: Vec<T>,
    next_cursor: Option<String>,
}

impl<T: DeserializeOwned + Send + 'static> PagedList<T> {
    pub(crate) fn new(client: &Client, ask: ApiRequest) -> Self {
        Self { client: client.clone(), ask, page_size: None, items: std::marker::PhantomData }
    }

    pub(crate) fn add_query(self, name: &'static str, value: impl ToString) -> Self {
        Self { ask: self.ask.add_query(name, value), ..self }
    }

    /// Number of items per page; the server has a default.
    #[must_use]
    pub fn page_size(mut self, items: usize) -> Self {
        self.page_size = Some(items);
        self
    }

    /// All items, as they are read. Ends after the first error.
    pub fn stream(self) -> PagedStream<T> {
        let ask = match self.page_size {
            Some(items) => self.ask.add_query("limit", items),
            None => self.ask,
        };
        let pages = PageReader { client: self.client, ask, place: PageCursor::First };
        let items = futures::stream::try_unfold(pages, PageReader::next_page)
            .map_ok(|items| futures::stream::iter(items.into_iter().map(Ok)))
            .try_flatten();
        PagedStream { items: items.boxed() }
    }

    /// All items at once.
    pub async fn all(self) -> Result<Vec<T>, ClientError> {
        self.stream().try_collect().await
    }
}

/// Awaiting a list collects all of its items.
impl<T: DeserializeOwned + Send + 'static> IntoFuture for PagedList<T> {
    type Output = Result<Vec<T>, ClientError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.all())
    }
}

#[derive(Debug)]
struct PageReader {
    client: Client,
    ask: ApiRequest,
    place: PageCursor,
}

#[derive(Debug)]
enum PageCursor {
    First,
    After(String),
    End,
}

impl PageReader {
    async fn next_page<T: DeserializeOwned>(self) -> Result<Option<(Vec<T>, Self)>, ClientError> {
        let ask = match &self.place {
            PageCursor::First => self.ask.clone(),
            PageCursor::After(cursor) => self.ask.clone().add_query("cursor", cursor),
            PageCursor::End => return Ok(None),
        };
        let page: ListPage<T> = self.client.send_request(&ask).await?.json()?;
        let place = page.next_cursor.map_or(PageCursor::End, PageCursor::After);
        Ok(Some((page.items, Self { place, ..self })))
    }
}

impl<T> PagedStream<T> {
    /// The next item, without importing the trait `Stream`.
    pub async fn next(&mut self) -> Option<Result<T, ClientError>> {
        self.items.next().await
    }
}

impl<T> Stream for PagedStream<T> {
    type Item = Result<T, ClientError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.items.poll_next_unpin(cx)
    }
}

impl<T> std::fmt::Debug for PagedStream<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}
