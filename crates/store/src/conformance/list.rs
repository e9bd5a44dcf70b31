//! The list of all cases: the only place that names them.

/// Expands to one test per case. See [the suite](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($bench:expr) => {
        $crate::conformance_tests! { @expand $bench;
            append {
                accept_no_grows_in_batch_order_and_across_batches,
                an_accepted_event_is_pending_and_reads_back_byte_for_byte,
                a_refused_item_leaves_no_trace_and_the_others_are_appended,
                a_refused_item_burns_no_key,
                a_refused_item_burns_no_key_for_a_later_item_of_its_batch,
                another_tenants_execution_is_no_execution,
                an_empty_batch_is_nothing,
                a_start_is_seq_one_and_completed,
                a_start_brings_its_events_in_the_same_commit,
                a_start_arms_its_timers,
                many_appends_at_once_lose_nothing_and_share_no_accept_no,
                targets_are_the_definitions_of_executions,
            }
            append_repeats {
                a_repeated_key_returns_the_first_event_with_its_current_status,
                a_key_reused_with_other_content_is_a_mismatch,
                one_key_twice_in_one_batch_is_one_event,
                keys_of_different_tenants_do_not_meet,
                fifty_appends_of_one_key_at_once_make_one_event,
                batches_with_crossed_keys_do_not_surface_a_deadlock,
                an_append_in_doubt_can_be_repeated,
                a_batch_in_doubt_may_have_grown,
                the_same_start_again_is_a_repeat_and_appends_nothing,
                a_start_of_a_taken_id_with_other_input_is_a_mismatch,
                one_id_started_twice_in_one_batch_is_one_execution,
                two_tenants_may_use_the_same_execution_id,
                many_starts_of_one_id_at_once_make_one_execution,
            }
            mailbox {
                undecided_pages_by_execution_key,
                undecided_in_bands_looks_at_the_time_of_acceptance,
                what_is_decided_or_deferred_is_not_undecided,
                a_paused_execution_has_no_work_but_its_cancellation,
                has_work_answers_in_the_order_asked,
            }
            load {
                loading_brings_state_and_mailbox,
                a_missing_execution_is_missing_and_the_others_are_found,
                a_mailbox_is_cut_by_count_and_says_so,
                a_mailbox_is_cut_by_bytes_but_never_to_nothing,
                limits_apply_to_each_execution_by_itself,
                a_caller_that_knows_the_seq_gets_no_state,
                a_skipped_snapshot_is_made_up_by_transitions,
                deferred_events_come_along_and_are_not_counted,
                a_paused_mailbox_shows_its_cancellation_behind_any_backlog,
                state_and_mailbox_are_of_one_moment,
                an_ended_execution_still_has_a_mailbox,
            }
        }
    };
    (@expand $bench:expr; $($topic:ident { $($case:ident,)+ })+) => {
        $(
            mod $topic {
                use super::*;
                $(
                    #[::tokio::test(flavor = "multi_thread", worker_threads = 2)]
                    async fn $case() {
                        let bench: $crate::conformance::Bench = $bench;
                        $crate::conformance::$topic::$case(bench).await;
                    }
                )+
            }
        )+
    };
}
