//! The roster of people: their skills, and whether they get assignments.

use millstream_api::people::{NewPerson, PersonView};

use super::connect::Client;
use super::json;
use super::listing::PagedList;
use super::transport::{ApiRequest, RepeatPolicy, path_segment};
use crate::client_error::ClientError;

impl Client {
    /// Sets the skills of a person, and adds an unknown person. The last call counts.
    pub async fn put_person(
        &self,
        person: &str,
        skills: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<PersonView, ClientError> {
        let body = NewPerson { skills: Some(skills.into_iter().map(Into::into).collect()) };
        let ask = ApiRequest::put(person_path(person, "")).with_json(json::json_body(&body)?);
        self.send_request(&ask).await?.json()
    }

    /// One person and their skills.
    pub async fn person(&self, person: &str) -> Result<PersonView, ClientError> {
        self.send_request(&ApiRequest::get(person_path(person, ""))).await?.json()
    }

    /// All known people in the order of their ids.
    pub fn people(&self) -> PagedList<PersonView> {
        PagedList::new(self, ApiRequest::get("/v1/people"))
    }

    /// Pauses a person: no new assignments, open ones stay.
    pub async fn pause_person(&self, person: &str) -> Result<PersonView, ClientError> {
        self.send_request(&ApiRequest::post(person_path(person, "/pause"), RepeatPolicy::Always))
            .await?
            .json()
    }

    /// Resumes a paused person.
    pub async fn resume_person(&self, person: &str) -> Result<PersonView, ClientError> {
        self.send_request(&ApiRequest::post(person_path(person, "/resume"), RepeatPolicy::Always))
            .await?
            .json()
    }
}

fn person_path(person: &str, rest: &str) -> String {
    format!("/v1/people/{}{rest}", path_segment(person))
}
