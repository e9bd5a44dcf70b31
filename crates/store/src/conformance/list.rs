//! The list of all cases: the only place that names them.

/// Expands to one test per case. See [the suite](crate::conformance).
#[macro_export]
macro_rules! conformance_tests {
    ($bench:expr) => {
        $crate::expand_conformance_tests! { $bench;
            append {
                accept_no_grows_in_batch_order_and_across_batches,
                an_accepted_event_is_pending_and_reads_back_byte_for_byte,
                a_refused_item_leaves_no_trace_and_the_others_are_appended,
                a_refused_item_burns_no_key,
                a_refused_item_burns_no_key_for_a_later_item_of_its_batch,
                another_tenants_execution_is_no_execution,
                an_empty_batch_is_nothing,
                a_start_is_seq_one_and_completed,
                an_execution_dates_from_its_first_transition,
                a_start_brings_its_events_in_the_same_commit,
                a_start_arms_its_timers,
                many_appends_at_once_lose_nothing_and_share_no_accept_no,
                targets_are_the_definitions_of_executions,
            }
            append_repeats {
                a_repeated_key_returns_the_first_event_with_its_current_status,
                what_a_key_stands_for_can_be_asked,
                a_key_of_a_start_outlives_its_execution,
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
                undecided_pages_name_each_execution_once,
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
                an_id_that_is_used_again_is_another_execution,
                a_skipped_snapshot_is_made_up_by_transitions,
                deferred_events_come_along_and_are_not_counted,
                a_paused_mailbox_shows_its_cancellation_behind_any_backlog,
                state_and_mailbox_are_of_one_moment,
                an_ended_execution_still_has_a_mailbox,
            }
            commit {
                a_commit_writes_state_log_and_event_record,
                a_rejection_is_recorded_with_its_reason,
                a_deferred_event_can_be_applied_later,
                a_commit_at_another_seq_writes_nothing,
                each_execution_of_a_batch_has_its_own_verdict,
                of_two_commits_at_one_seq_exactly_one_wins,
                a_paused_execution_takes_only_its_cancellation,
                a_pause_after_the_end_keeps_no_verdict_back,
                a_failed_verdict_pauses_the_execution,
                a_commit_that_decides_what_was_decided_before_writes_nothing,
                a_commit_that_decides_what_was_buried_writes_nothing,
                an_end_shows_in_the_phase,
                timers_are_armed_and_cancelled_with_the_transition,
                emitted_events_are_appended_in_order,
                attempts_are_counted_while_undecided,
                an_empty_commit_is_nothing,
            }
            commit_actions {
                ready_actions_are_leased_in_order_while_slots_last,
                a_leased_action_brings_all_that_performing_needs,
                slots_are_shared_by_the_batch_and_not_used_by_conflicts,
                actions_settled_inline_are_recorded_as_such,
                unleased_actions_are_due_at_once,
                a_cancellation_cancels_what_nobody_holds,
                a_cancellation_spares_the_actions_of_its_own_commit,
                a_commit_without_cancellation_leaves_open_actions_alone,
            }
            lease {
                only_due_actions_are_leased,
                no_more_than_the_slots_and_the_longest_due_first,
                each_lease_raises_epoch_and_attempt,
                an_expired_lease_is_taken_over_with_a_higher_epoch,
                a_live_lease_is_not_taken_over,
                a_pause_does_not_stop_actions,
                no_action_goes_to_two_callers,
                a_renewed_lease_lives_longer,
                a_lease_that_ran_out_untaken_can_still_settle,
                an_old_epoch_cannot_renew,
                an_old_epoch_does_not_extend_anothers_lease,
                an_old_epoch_cannot_record_an_input,
                a_recorded_input_comes_with_the_next_lease,
                an_old_epoch_cannot_settle,
                an_old_epoch_cannot_release,
                a_released_action_is_due_at_once_and_its_attempt_not_counted,
            }
            settle {
                an_event_is_completed_when_all_its_actions_are_settled,
                a_verdict_tells_the_status_after_the_whole_batch,
                a_repeated_settlement_is_stale_and_writes_nothing,
                one_lease_twice_in_a_batch_is_settled_once,
                success_frees_dependents_with_its_result,
                dependents_are_leased_as_far_as_slots_go,
                a_retry_is_due_at_its_time_and_keeps_the_error,
                a_retry_in_a_cancelled_execution_cancels_the_action,
                a_retry_in_an_execution_that_a_person_failed_cancels_the_action,
                in_a_cancelled_execution_nothing_is_awaited_or_undone,
                what_the_engine_owes_is_tried_again_after_a_cancellation,
                a_retry_goes_on_after_an_end_that_is_no_cancellation,
                a_handled_failure_emits_its_event_and_completes,
                an_unhandled_failure_fails_the_event_and_pauses_the_execution,
                a_failure_skips_dependents_of_dependents,
                a_failure_and_a_success_in_one_batch_agree_on_dependents,
                a_success_emits_its_event_in_the_same_transaction,
                a_failure_after_the_end_fails_the_event_and_pauses_nothing,
                one_batch_may_settle_actions_of_many_executions,
            }
            settle_races {
                two_actions_that_settle_at_once_never_leave_their_event_processing,
                two_needs_that_settle_at_once_free_their_dependent_once,
                crossed_batches_of_settlements_do_not_surface_a_deadlock,
                settling_and_committing_at_once_get_along,
            }
            timers {
                a_due_timer_becomes_an_undecided_event,
                a_timer_does_not_fire_before_its_time,
                timers_fire_in_order_as_many_as_there_are_ids,
                two_timers_of_one_execution_are_two_events,
                a_cancelled_timer_does_not_fire,
                every_timer_fires_once_whoever_asks,
                the_next_due_time_is_of_timers_and_ready_actions,
            }
            definitions {
                versions_count_up_and_stay_readable,
                only_the_latest_version_counts_as_unchanged,
                concurrent_puts_get_distinct_versions,
                concurrent_puts_of_the_same_make_one_version,
                the_list_holds_the_latest_of_each_name,
                another_tenants_definition_is_not_there,
            }
            interventions {
                a_buried_event_is_dead_and_its_execution_paused,
                an_event_decided_meanwhile_is_not_buried,
                a_deferred_event_can_be_buried,
                burying_in_an_ended_execution_pauses_nothing,
                a_pause_keeps_its_first_reason,
                failures_and_burials_keep_the_first_reason_of_a_pause,
                retrying_a_dead_event_makes_it_undecided_at_its_place,
                retrying_a_failed_event_reopens_its_actions,
                a_retry_leaves_handled_failures_alone,
                a_retry_tells_apart_what_failed_at_once,
                an_execution_resumes_only_when_nothing_else_holds_it,
                only_dead_and_failed_events_can_be_retried,
                what_is_not_ones_own_cannot_be_retried,
            }
            execution_views {
                executions_are_found_in_the_order_asked,
                executions_are_listed_newest_first_in_pages,
                executions_are_filtered_by_definition_state_and_status,
                history_tells_transitions_with_their_payloads,
                a_page_of_history_is_cut_by_weight,
                another_tenant_sees_nothing_of_an_execution,
                actions_are_listed_by_seq_and_place,
                actions_and_timers_are_listed_in_pages,
            }
            event_views {
                events_are_found_in_the_order_asked,
                another_tenants_event_is_not_there,
                events_are_listed_in_acceptance_order_in_pages,
                events_are_filtered_by_execution_and_status,
                the_backlog_counts_what_is_left,
            }
            keys {
                a_key_is_found_by_its_hash_until_it_is_revoked,
                a_name_is_taken_while_its_key_lives,
                a_name_is_given_once_however_many_ask,
                keys_exist_from_the_first_one_on_revoked_or_not,
                keys_are_listed_newest_first_with_the_revoked_ones,
                an_operators_key_belongs_to_no_tenant,
                keys_of_every_role_are_read_back_whole,
                a_rotated_key_keeps_its_name_and_expires_after_the_overlap,
                an_expired_key_gives_up_its_name,
                the_last_use_of_a_key_never_goes_back,
            }
            queues {
                a_worker_gets_only_what_stands_in_its_queues,
                what_nobody_answered_is_given_up_by_any_worker,
                progress_of_what_awaits_is_kept_under_its_token_and_extends_nothing,
                several_queues_share_the_slots_of_one_call,
                one_call_leases_for_many_workers,
                a_long_queue_does_not_hold_up_another,
                a_dependent_is_leased_only_to_who_serves_its_queue,
                open_queues_are_named_once_each_in_order,
                a_lease_lasts_as_long_as_the_heartbeat_and_a_beat_extends_it,
                an_attempt_cannot_be_extended_for_ever,
                a_holder_learns_that_its_execution_was_cancelled,
                what_nobody_begins_in_time_is_overdue,
                all_attempts_together_have_a_deadline,
                a_dependent_s_schedule_begins_when_it_is_free,
                what_is_postponed_is_not_counted,
                what_awaits_somebody_else_is_settled_under_its_lease,
                actions_are_found_by_their_keys,
                external_workers_are_known_by_what_they_said_last,
            }
            undo {
                what_succeeded_last_is_undone_first_and_then_the_failure_is_told,
                what_is_under_way_is_waited_for_and_what_is_not_is_skipped,
                an_undo_that_nothing_calls_for_holds_up_nothing,
                to_tell_a_failure_is_no_attempt,
                what_was_skipped_for_an_undoing_stays_skipped,
                an_undo_that_fails_for_good_waits_for_a_person_and_goes_on_from_there,
                a_failure_that_is_to_be_told_is_the_engine_s_business,
            }
            incidents {
                a_failure_opens_an_incident_and_pauses,
                a_reason_may_hold_any_character,
                the_same_trouble_is_one_group,
                lists_are_newest_first_and_cut_by_position,
                a_retry_reopens_the_action_and_what_waits_for_it,
                a_retry_with_another_input_is_another_revision,
                a_skip_succeeds_with_the_given_result_and_tells,
                an_end_by_request_is_appended_and_the_rest_is_left,
                an_incident_is_resolved_once,
                of_two_failures_each_is_decided_by_itself,
                a_retry_of_the_event_resolves_its_incidents,
                the_end_of_an_execution_resolves_what_is_open,
                a_buried_event_is_an_incident_without_an_action,
                two_decisions_at_once_are_one,
                an_action_that_fails_within_its_commit_opens_an_incident,
                what_fails_in_the_commit_that_ends_opens_none,
                what_fails_after_the_end_opens_none,
                what_the_engine_owes_at_an_end_and_cannot_do_opens_one,
                an_execution_that_cannot_be_read_is_an_incident_of_the_event_that_waits,
                an_execution_that_cannot_be_ended_either_is_an_incident_again,
                one_incident_twice_in_a_batch_is_decided_once,
                two_incidents_of_one_event_may_be_decided_in_one_batch,
                a_skip_of_the_last_action_completes_the_event,
                incidents_go_with_their_execution,
            }
            relations {
                a_signal_finds_the_execution_of_its_correlation,
                a_signal_that_nobody_waits_for_is_kept_until_somebody_does,
                a_signal_that_has_expired_is_not_delivered,
                a_signal_for_several_executions_is_refused,
                an_execution_that_has_ended_gets_no_signals,
                a_correlation_that_a_transition_sets_counts_from_then_on,
                a_repeated_signal_is_a_repeat,
                a_key_stays_as_long_as_its_signal_waits,
                a_signal_and_a_start_at_once_find_each_other,
                children_are_found_by_their_parent,
                children_that_have_ended_are_not_found,
                a_signal_for_one_definition_waits_for_an_execution_of_it,
                items_of_one_batch_find_each_other_by_correlation,
                a_refused_signal_burns_no_key,
                one_key_twice_in_one_batch_is_one_signal,
            }
            schedules {
                what_was_begun_in_time_need_not_be_begun_again,
                what_is_given_back_unbegun_must_still_be_begun_in_time,
                what_is_postponed_unbegun_must_still_be_begun_in_time,
                what_is_under_way_or_over_is_not_overdue,
                what_is_cancelled_is_not_overdue,
                what_is_skipped_for_an_undoing_is_not_overdue,
                the_decision_of_a_person_begins_the_schedule_anew,
                no_more_overdue_actions_than_the_slots_and_the_oldest_first,
                the_next_due_is_looked_for_in_the_queues_that_are_named,
                a_cancellation_amid_an_undoing_ends_it,
                one_lease_with_two_outcomes_in_a_batch_has_the_first,
                a_lease_of_an_external_worker_that_ended_is_looked_at,
                a_lease_that_ended_after_everything_had_to_be_over_is_looked_at,
            }
            work_races {
                a_decision_about_an_incident_and_a_retry_of_its_event_are_one,
                decisions_about_two_failures_of_one_event_leave_none_behind,
                two_failures_are_two_incidents_and_one_pause,
                a_failure_and_the_end_of_its_execution_leave_nothing_to_decide,
                an_attempt_to_come_and_a_cancellation_leave_nothing_to_do,
                two_that_are_compensated_are_undone_once_and_told_each,
                a_lease_and_the_search_for_the_overdue_take_each_action_once,
                a_beat_does_not_bring_back_what_is_settled,
                a_signal_and_a_commit_that_gives_the_correlation_find_each_other,
                a_signal_to_an_execution_that_ends_is_delivered_or_kept,
                one_signal_sent_many_times_is_one,
            }
            graphs {
                a_start_brings_its_graph_and_all_its_nodes,
                a_repeat_of_a_start_writes_nothing_of_its_graph,
                two_starts_of_one_id_in_a_batch_are_one_graph,
                a_graph_of_ten_thousand_nodes_starts_in_one_call,
                a_commit_writes_what_it_says_of_nodes_and_keeps_the_rest,
                a_commit_that_loses_writes_nothing_of_the_graph,
                edits_insert_update_and_delete_nodes,
                instances_know_their_fan_out_and_their_item,
                the_blob_comes_with_the_snapshot,
                an_execution_that_is_no_graph_has_none,
            }
            graph_views {
                nodes_come_in_pages_by_id,
                nodes_are_found_by_status_and_by_id,
                graphs_that_have_not_ended_are_counted_with_their_nodes,
            }
            graph_dispatch {
                a_dispatch_is_recorded_and_brings_what_its_request_is_made_of,
                only_an_attempt_that_is_under_way_is_dispatched,
                a_second_dispatch_of_an_attempt_takes_the_place_of_the_first,
                upstream_results_come_along_as_long_as_they_fit,
                instances_follow_their_fan_out_by_number,
                an_instance_is_dispatched_with_its_item,
                no_more_than_a_hundred_children_are_named,
                a_batch_over_many_executions_is_answered_in_its_order,
                a_join_of_a_thousand_brings_what_fits_and_the_lengths_of_the_rest,
            }
            graph_logs {
                logs_are_kept_as_they_come_of_all_attempts,
                a_log_is_cut_where_it_is_full_and_says_so,
                texts_of_what_is_gone_are_dropped,
            }
            graph_feed {
                every_commit_of_a_graph_is_one_entry,
                a_batch_of_dispatches_is_one_entry_per_execution,
                entries_of_one_execution_are_seen_in_the_order_of_their_positions,
            }
            outbox {
                an_entry_is_spread_once_to_the_sinks_of_that_moment,
                a_sink_hears_the_entries_of_an_execution_in_order_and_then_no_more,
                what_is_put_off_holds_up_nobody_else,
                what_happens_while_a_parcel_is_under_way_is_due_after_it,
                a_parcel_that_somebody_else_handed_over_changes_nothing,
                a_part_of_an_entry_is_remembered,
                what_sinks_have_not_heard_is_counted,
                entries_that_are_gone_leave_an_empty_parcel_at_most,
                spreading_and_handing_over_at_once_lose_nothing,
            }
            notices {
                a_run_that_fails_leaves_a_notice_with_its_commit,
                a_unit_that_is_refused_leaves_no_notice,
                an_item_that_fails_or_escalates_leaves_a_notice_with_its_commit,
                a_notice_is_spread_once_to_the_sinks_of_that_moment,
                notices_of_one_subject_are_due_one_after_the_other,
                a_notice_that_is_put_off_holds_up_nobody_else,
                notices_that_sinks_have_not_heard_are_counted,
                old_notices_go_whether_they_were_heard_or_not,
                positions_are_not_given_out_again,
                notices_that_are_written_spread_and_told_at_once_are_each_told_in_order,
            }
            executors {
                an_executor_is_known_by_its_last_word,
                executors_come_by_tenant_and_name_if_they_were_heard_of,
                an_executor_that_retires_is_off_the_list,
                silent_executors_are_forgotten,
            }
            devices {
                a_device_is_known_by_its_last_word,
                a_pause_is_a_persons_word_and_outlives_beats,
                a_roster_comes_by_id_in_pages_with_its_seats_counted,
                devices_of_tenants_do_not_meet,
                a_removed_device_is_gone,
            }
            runs {
                a_run_is_read_back_as_it_was_written,
                only_who_has_seen_the_last_version_writes,
                a_run_that_exists_is_not_created_again,
                a_unit_is_written_together_or_not_at_all,
                a_later_unit_sees_the_ones_before_it,
                a_unit_that_names_a_run_twice_is_refused,
                runs_of_tenants_do_not_meet,
                due_runs_come_once_and_the_longest_due_first,
            }
            run_beats {
                a_beat_moves_the_time_and_makes_no_version,
                a_beat_without_the_right_is_lost,
                progress_comes_with_a_beat_while_it_is_worked_on,
                a_beat_says_whether_the_run_is_paused,
                a_commit_that_knew_less_takes_nothing_back_that_was_heard,
                a_silence_that_was_broken_does_not_count,
            }
            run_ends {
                the_end_of_a_run_settles_its_action_in_the_same_commit,
                a_unit_that_is_refused_settles_nothing,
                a_settlement_that_comes_too_late_does_not_keep_a_run_from_ending,
                what_waits_for_the_action_is_freed_and_counted,
                runs_that_ended_long_ago_go_with_their_logs,
            }
            run_views {
                runs_are_listed_newest_first_in_pages,
                runs_are_found_by_status_kind_and_execution,
                a_fleet_is_counted_with_what_it_has_and_what_waits,
                seats_of_a_device_come_by_priority_and_then_by_age,
                a_log_is_kept_in_order_and_read_in_pages,
            }
            run_races {
                of_two_who_claim_one_gets_it,
                a_completion_and_a_reassignment_exclude_each_other,
                an_acceptance_and_a_timeout_exclude_each_other,
                a_sign_of_life_and_a_timeout_exclude_each_other,
                many_who_create_one_run_create_one,
                crossed_units_do_not_surface_a_deadlock,
            }
            independent {
                thousands_of_independent_actions_are_settled_in_batches,
                an_independent_failure_that_an_event_handles_is_over,
                an_independent_action_between_two_attempts_leaves_the_others_as_they_are,
                an_independent_failure_for_a_person_holds_up_its_execution,
                an_independent_action_that_is_compensated_is_told_at_once,
                a_cancellation_takes_independent_actions_along,
                independent_actions_that_settle_at_once_are_all_recorded,
            }
            people_queues {
                a_queue_is_what_was_put_last,
                a_paused_queue_stays_paused_when_it_is_configured_anew,
                queues_come_in_pages_by_name,
                people_are_what_was_said_of_them_last,
            }
            people_items {
                an_item_is_imported_once,
                an_item_is_loaded_as_it_was_committed,
                a_change_of_an_older_version_is_refused,
                the_log_of_an_item_says_what_its_rows_say,
                the_end_of_an_item_is_told_in_the_same_commit,
                nobody_who_waits_any_more_holds_up_no_item,
                what_is_due_is_found_the_longest_first,
                ended_items_go_and_their_totals_stay,
                an_item_with_an_open_correction_stays,
            }
            people_next {
                a_lost_answer_loses_nothing,
                the_order_is_priority_then_reopened_then_import,
                an_item_goes_to_as_many_different_people_as_it_needs,
                nobody_is_given_what_they_lack_the_skills_for,
                what_suits_is_found_behind_everything_that_does_not,
                limits_of_a_person_hold,
                who_or_what_is_paused_gets_nothing_new,
                callers_of_one_batch_are_served_in_their_order,
                work_comes_from_every_queue_that_is_asked_for,
                what_expired_is_reserved_for_its_person_and_then_open_to_others,
            }
            people_views {
                assignments_are_found_by_queue_status_person_and_item,
                items_come_in_pages_the_newest_first,
                totals_are_summed_by_queue_person_and_day,
                totals_of_all_tenants_are_summed_by_queue_over_days,
            }
            people_races {
                sixty_four_who_ask_at_once_get_each_item_once,
                sixty_four_who_ask_at_once_get_each_item_as_often_as_it_needs,
                one_person_who_asks_many_times_at_once_is_given_one_thing,
                of_a_submission_and_an_expiry_at_once_one_wins,
                of_a_submission_and_a_skip_at_once_one_wins,
                taking_and_taking_back_at_once_get_along,
            }
            quotas {
                a_quota_row_is_replaced_as_a_whole,
                quota_rows_are_read_when_their_revision_changes,
                many_quota_changes_at_once_are_all_seen,
                rows_of_every_counted_kind_are_counted,
                leases_of_external_workers_are_counted_until_they_end,
                open_executions_are_counted_by_tenant_up_to_the_limit,
                stored_bytes_grow_with_what_is_stored,
            }
            workers {
                a_worker_is_known_by_its_last_beat,
                a_worker_that_left_is_gone,
                a_duty_is_one_workers_turn,
                a_finished_duty_is_free_and_tells_when_it_was_done,
                a_turn_that_ran_out_passes_on,
                of_many_who_reach_for_a_duty_one_gets_it,
            }
            retention {
                only_ended_and_old_executions_go,
                each_way_to_end_has_a_time_of_its_own,
                everything_of_an_execution_goes_with_it,
                a_graph_goes_with_its_execution,
                an_execution_with_open_actions_stays,
                an_execution_with_undecided_events_stays,
                a_purge_takes_no_more_than_its_limit,
                keys_outlive_their_events,
                silent_workers_are_forgotten,
                silent_external_workers_and_expired_signals_are_forgotten,
                time_passes_and_does_not_go_back,
            }
        }
    };
}
