//! `millstream person`: people who perform items, and their skills.

use anyhow::Result;
use millstream_sdk::Client;
use millstream_sdk::client::PersonView;

use crate::cli::{PersonArgs, PersonCommand};
use crate::client::{first_items, hinted, page_size};
use crate::output::{CliOutput, format_fields, format_table};

const HINT: &str = "`millstream person list` lists people; `millstream person put NAME` adds a person";
const PERSON: &[&str] = &["person", "skills", "state"];

pub(crate) async fn run(args: &PersonArgs, client: &Client, output: CliOutput) -> Result<()> {
    match &args.command {
        PersonCommand::List { limit } => {
            let people = client.people().page_size(page_size(*limit)).stream();
            output.show_items(&first_items(people, *limit).await?, people_page)
        }
        PersonCommand::Get { person } => {
            let found = client.person(person).await.map_err(|error| hinted(error, HINT))?;
            output.show(&found, |found| format_fields(found, PERSON))
        }
        PersonCommand::Put { person, skills } => {
            let answer = client.put_person(person, skills).await?;
            output.show(&answer, |answer| match answer.skills.join(", ").as_str() {
                "" => format!("{person} is known, with no skills in particular"),
                skills => format!("{person} is known, with {skills}"),
            })
        }
        PersonCommand::Pause { person } => {
            let answer = client.pause_person(person).await.map_err(|error| hinted(error, HINT))?;
            output.show(&answer, |_| format!("{person} is given nothing more; what they have they keep"))
        }
        PersonCommand::Resume { person } => {
            let answer = client.resume_person(person).await.map_err(|error| hinted(error, HINT))?;
            output.show(&answer, |_| format!("{person} is given work again"))
        }
    }
}

fn people_page(people: &[PersonView]) -> String {
    if people.is_empty() {
        return "no people".to_owned();
    }
    format_table(people, &[("person", "person"), ("skills", "skills"), ("state", "state")])
}
