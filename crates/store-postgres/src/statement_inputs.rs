//! Statements with many parameters: the inputs are named once, beside their values, and the text refers to the
//! names.
//!
//! Rows are passed as one array per column ([`InputTable`]), so that the text of a statement does not depend
//! on their number. A [`NamedStatement`] is numbered on its first use, from the inputs of that use. After that
//! its text stays the same, and connections keep it prepared. A statement is always used with inputs of the
//! same names, in the same order.
//!
//! | mark in the text | becomes |
//! |---|---|
//! | `{now}`, a value | `$3` |
//! | `{timers}`, a table | `unnest($1::text[], $2::bigint[]) AS k(tenant, seq)` |
//! | `{timers.ordered}` | the same, with the place of the row as `ord` |
//! | `{timers.columns}` | `tenant, seq` |
//! | `{timers.changes}` | `seq = k.seq`: the columns behind the key |
//! | `{timers.replacements}` | `seq = excluded.seq`: the same for `ON CONFLICT` |
//! | `{timers.count}` | the number of rows: `cardinality($1)` |

use std::sync::OnceLock;

use millstream_model::id::{ExecutionKey, RunKey};
use sqlx::Postgres;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use uuid::Uuid;

/// A statement whose text has marks for its inputs.
#[derive(Debug)]
pub(crate) struct NamedStatement {
    marked: &'static str,
    numbered: OnceLock<NumberedText>,
}

impl NamedStatement {
    pub(crate) const fn new(marked: &'static str) -> Self {
        Self { marked, numbered: OnceLock::new() }
    }

    /// The statement with its parameters.
    pub(crate) fn bind<'q>(&'static self, inputs: StatementInputs<'q>) -> Query<'q, Postgres, PgArguments> {
        let numbered = self.numbered.get_or_init(|| NumberedText {
            text: inputs.number_marks(self.marked),
            parameters: inputs.describe_parameters(),
        });
        debug_assert_eq!(numbered.parameters, inputs.describe_parameters(), "{}", self.marked);
        inputs.bind_to(sqlx::query(numbered.text.as_str()))
    }
}

/// The text of a statement, with its parameters as they were at its first use.
#[derive(Debug)]
struct NumberedText {
    text: String,
    parameters: String,
}

/// The inputs of a statement, in the order of its parameters.
#[derive(Debug, Default)]
pub(crate) struct StatementInputs<'q>(Vec<(&'static str, StatementInput<'q>)>);

#[derive(Debug)]
enum StatementInput<'q> {
    Table { columns: Vec<InputColumn<'q>>, key_columns: usize },
    Text(Option<&'q str>),
    Number(Option<i64>),
}

impl<'q> StatementInputs<'q> {
    pub(crate) fn table<R>(mut self, name: &'static str, table: InputTable<'q, R>) -> Self {
        let InputTable { columns, key_columns, .. } = table;
        self.0.push((name, StatementInput::Table { columns, key_columns }));
        self
    }

    pub(crate) fn text(mut self, name: &'static str, value: impl Into<Option<&'q str>>) -> Self {
        self.0.push((name, StatementInput::Text(value.into())));
        self
    }

    pub(crate) fn number(mut self, name: &'static str, value: impl Into<Option<i64>>) -> Self {
        self.0.push((name, StatementInput::Number(value.into())));
        self
    }

    fn number_marks(&self, marked: &str) -> String {
        let mut numbered = marked.to_owned();
        let mut last = 0;
        for (name, input) in &self.0 {
            let first = last + 1;
            match input {
                StatementInput::Text(_) | StatementInput::Number(_) => {
                    last = first;
                    numbered = numbered.replace(&format!("{{{name}}}"), &format!("${first}"));
                }
                StatementInput::Table { columns, key_columns } => {
                    last += columns.len();
                    let arrays = join(columns.iter().zip(first..), |(column, number)| {
                        format!("${number}::{}", column.values.sql_type())
                    });
                    let behind_key = columns.get(*key_columns..).unwrap_or_default();
                    let names = join(columns, |column| column.name.to_owned());
                    let changes = join(behind_key, |column| format!("{0} = k.{0}", column.name));
                    let replacements = join(behind_key, |column| format!("{0} = excluded.{0}", column.name));
                    numbered = numbered
                        .replace(&format!("{{{name}}}"), &format!("unnest({arrays}) AS k({names})"))
                        .replace(
                            &format!("{{{name}.ordered}}"),
                            &format!("unnest({arrays}) WITH ORDINALITY AS k({names}, ord)"),
                        )
                        .replace(&format!("{{{name}.columns}}"), &names)
                        .replace(&format!("{{{name}.changes}}"), &changes)
                        .replace(&format!("{{{name}.replacements}}"), &replacements)
                        .replace(&format!("{{{name}.count}}"), &format!("cardinality(${first})"));
                }
            }
        }
        numbered
    }

    /// Names and types, in order.
    fn describe_parameters(&self) -> String {
        join(&self.0, |(name, input)| match input {
            StatementInput::Text(_) => format!("{name} text"),
            StatementInput::Number(_) => format!("{name} number"),
            StatementInput::Table { columns, .. } => {
                let columns = join(columns, |column| format!("{} {}", column.name, column.values.sql_type()));
                format!("{name} ({columns})")
            }
        })
    }

    fn bind_to(self, mut query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        for (_, input) in self.0 {
            query = match input {
                StatementInput::Table { columns, .. } => {
                    columns.into_iter().fold(query, |query, column| column.values.bind_to(query))
                }
                StatementInput::Text(value) => query.bind(value),
                StatementInput::Number(value) => query.bind(value),
            };
        }
        query
    }
}

fn join<T>(parts: impl IntoIterator<Item = T>, text: impl FnMut(T) -> String) -> String {
    parts.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Rows as columns: names and values together.
#[derive(Debug)]
pub(crate) struct InputTable<'q, R> {
    rows: &'q [R],
    columns: Vec<InputColumn<'q>>,
    /// How many of the columns are the key.
    key_columns: usize,
}

#[derive(Debug)]
struct InputColumn<'q> {
    name: &'static str,
    values: ColumnValues<'q>,
}

#[derive(Debug)]
enum ColumnValues<'q> {
    Text(Vec<Option<&'q str>>),
    Number(Vec<Option<i64>>),
    Integer(Vec<i32>),
    Flag(Vec<bool>),
    Id(Vec<Uuid>),
    Bytes(Vec<&'q [u8]>),
}

impl<'q, R> InputTable<'q, R> {
    pub(crate) const fn of(rows: &'q [R]) -> Self {
        Self { rows, columns: Vec::new(), key_columns: 0 }
    }

    /// The columns so far are the key of the table.
    pub(crate) fn end_of_key(mut self) -> Self {
        self.key_columns = self.columns.len();
        self
    }

    /// The columns `tenant` and `execution_id`.
    pub(crate) fn execution_key(self, key: impl Fn(&'q R) -> &'q ExecutionKey) -> Self {
        self.text("tenant", |row| key(row).tenant.as_str())
            .text("execution_id", |row| key(row).execution.as_str())
    }

    /// The columns `tenant` and `run_id`.
    pub(crate) fn run_key(self, key: impl Fn(&'q R) -> &'q RunKey) -> Self {
        self.text("tenant", |row| key(row).tenant.as_str()).text("run_id", |row| key(row).run.as_str())
    }

    pub(crate) fn text<V: Into<Option<&'q str>>>(
        self,
        name: &'static str,
        value: impl Fn(&'q R) -> V,
    ) -> Self {
        let values = self.rows.iter().map(|row| value(row).into()).collect();
        self.add_column(name, ColumnValues::Text(values))
    }

    pub(crate) fn number<V: Into<Option<i64>>>(self, name: &'static str, value: impl Fn(&'q R) -> V) -> Self {
        let values = self.rows.iter().map(|row| value(row).into()).collect();
        self.add_column(name, ColumnValues::Number(values))
    }

    pub(crate) fn integer(self, name: &'static str, value: impl Fn(&'q R) -> i32) -> Self {
        let values = self.rows.iter().map(value).collect();
        self.add_column(name, ColumnValues::Integer(values))
    }

    pub(crate) fn flag(self, name: &'static str, value: impl Fn(&'q R) -> bool) -> Self {
        let values = self.rows.iter().map(value).collect();
        self.add_column(name, ColumnValues::Flag(values))
    }

    pub(crate) fn id(self, name: &'static str, value: impl Fn(&'q R) -> Uuid) -> Self {
        let values = self.rows.iter().map(value).collect();
        self.add_column(name, ColumnValues::Id(values))
    }

    pub(crate) fn bytes(self, name: &'static str, value: impl Fn(&'q R) -> &'q [u8]) -> Self {
        let values = self.rows.iter().map(value).collect();
        self.add_column(name, ColumnValues::Bytes(values))
    }

    fn add_column(mut self, name: &'static str, values: ColumnValues<'q>) -> Self {
        self.columns.push(InputColumn { name, values });
        self
    }
}

impl<'q> ColumnValues<'q> {
    const fn sql_type(&self) -> &'static str {
        match self {
            Self::Text(_) => "text[]",
            Self::Number(_) => "bigint[]",
            Self::Integer(_) => "integer[]",
            Self::Flag(_) => "boolean[]",
            Self::Id(_) => "uuid[]",
            Self::Bytes(_) => "bytea[]",
        }
    }

    fn bind_to(self, query: Query<'q, Postgres, PgArguments>) -> Query<'q, Postgres, PgArguments> {
        match self {
            Self::Text(values) => query.bind(values),
            Self::Number(values) => query.bind(values),
            Self::Integer(values) => query.bind(values),
            Self::Flag(values) => query.bind(values),
            Self::Id(values) => query.bind(values),
            Self::Bytes(values) => query.bind(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters(rows: &[(&'static str, i64)]) -> StatementInputs<'static> {
        let rows: &'static [(&'static str, i64)] = rows.to_vec().leak();
        let table = InputTable::of(rows)
            .text("tenant", |row| row.0)
            .end_of_key()
            .number("seq", |row| row.1)
            .flag("late", |row| row.1 > 5);
        StatementInputs::default().text("worker", "w").table("letters", table).number("now", None)
    }

    #[test]
    fn marks_become_numbered_parameters() {
        let numbered = letters(&[]).number_marks(
            "INSERT INTO letters ({letters.columns}, at) SELECT k.*, {now} FROM {letters} WHERE {letters.count} > 0 \
             ON CONFLICT (tenant) DO UPDATE SET {letters.replacements}, by = {worker}",
        );
        assert_eq!(
            numbered,
            "INSERT INTO letters (tenant, seq, late, at) SELECT k.*, $5 \
             FROM unnest($2::text[], $3::bigint[], $4::boolean[]) AS k(tenant, seq, late) WHERE cardinality($2) > 0 \
             ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, late = excluded.late, by = $1"
        );
    }

    #[test]
    fn numbered_text_is_the_same_for_all_rows() {
        let text = "SELECT {letters.changes} FROM {letters.ordered} WHERE {now} > {worker}";
        let full = letters(&[("a", 1), ("b", 9)]).number_marks(text);
        assert_eq!(full, letters(&[]).number_marks(text));
        assert!(
            full.contains("seq = k.seq") && full.contains("WITH ORDINALITY AS k(tenant, seq, late, ord)")
        );
        assert!(!full.contains('{'), "{full}");
    }
}
