"""Which test answers which complaint about other update systems; `test_complaints_index.py` holds it to be true.

The numbers are those of our notes on hawkBit, rauc-hawkbit-updater, Mender, RAUC, balena, Argo, Flagger and others.
"""

from __future__ import annotations

PLATFORM, DEVICE = "tests/releases/", "tests/edge_agent/"
COMPLAINTS: dict[str, tuple[str, ...]] = {
    "1 success is counted although the device fell back": (
        PLATFORM + "test_complaints.py::test_a_device_that_runs_the_old_bundle_again_has_failed_whatever_it_confirmed",
        DEVICE + "test_complaints.py::test_1_a_device_that_fell_back_never_counts_as_updated",
    ),
    "2 success before the reboot, and no second offer after a fall-back": (
        PLATFORM + "test_complaints.py::test_installed_trial_confirmed_and_rolled_back_are_kept_apart",
        PLATFORM
        + "test_complaints.py::test_a_bundle_that_was_rolled_back_can_be_offered_again_by_a_person_with_a_reason",
        DEVICE + "test_complaints.py::test_2_a_bundle_that_failed_may_be_offered_again_by_another_release",
    ),
    "3 an endless download loop": (
        DEVICE + "test_download.py::test_a_missing_file_ends_a_resumed_download_instead_of_looping",
        DEVICE + "test_download.py::test_transient_answers_are_tried_again_a_few_times_only",
    ),
    "4 a device that proceeds for ever": (
        PLATFORM + "test_deadlines.py::test_a_device_that_took_the_bundle_and_never_spoke_again_is_counted_as_silent",
        PLATFORM + "test_rollout_actions.py::test_silent_devices_are_counted_against_the_bundle",
        DEVICE + "test_complaints.py::test_4_a_trial_without_an_end_ends_by_its_deadline",
    ),
    "5 an unclear cancel": (
        PLATFORM + "test_ddi.py::test_a_withdrawn_release_is_cancelled_and_the_device_accepts_by_closing",
        PLATFORM + "test_ddi.py::test_a_device_may_refuse_a_cancel_and_finish",
        PLATFORM + "test_complaints.py::test_a_second_roll_back_is_told_that_there_is_nothing_left_to_do",
        DEVICE + "test_download.py::test_a_bundle_that_is_withdrawn_after_its_trial_began_is_rolled_back_not_cancelled",
    ),
    "6 feedback lost at a power cut, and the same payload again": (
        PLATFORM + "test_feedback.py::test_a_repeated_report_changes_nothing",
        DEVICE + "test_complaints.py::test_6_a_report_that_was_lost_is_sent_again_and_nothing_is_installed_again",
    ),
    "7 two harmful groups in one tick undo each other's pause": (
        PLATFORM
        + "test_complaints.py::test_two_harmful_rollouts_in_one_tick_both_end_and_a_second_tick_changes_nothing",
        PLATFORM + "test_rollout_actions.py::test_a_rollout_whose_tick_fails_does_not_hold_up_the_others",
    ),
    "8 new devices are missed, or all are hit at once": (
        PLATFORM + "test_complaints.py::test_a_device_that_joins_later_falls_under_the_same_stage_as_all_others",
        PLATFORM + "test_targeting.py::test_a_device_whose_tags_change_joins_and_leaves_and_is_waited_for_no_more",
    ),
    "9 stuck while creating, or finished with no device": (
        PLATFORM + "test_complaints.py::test_the_state_of_a_rollout_is_never_creating",
        PLATFORM + "test_preflight.py::test_it_counts_who_matches_who_runs_it_already_and_who_is_left_out_and_why",
        PLATFORM + "test_targeting.py::test_a_start_that_means_nothing_or_nobody_is_refused_with_the_remedy",
    ),
    "10 a share of successes hides what became worse": (
        PLATFORM + "test_complaints.py::test_successful_installations_alone_do_not_open_the_next_stage",
    ),
    "11 a device cannot say what it left the factory with": (
        PLATFORM + "test_complaints.py::test_a_device_tells_its_factory_bundle_when_it_joins",
        DEVICE + "test_complaints.py::test_11_a_device_reports_its_factory_bundle_when_it_joins",
    ),
    "12 what was denied is offered again at every poll": (
        PLATFORM + "test_ddi.py::test_a_user_who_denies_is_asked_once_and_one_who_confirms_lets_it_go_on",
        PLATFORM + "test_approval.py::test_a_rejected_rollout_is_over_and_never_offered_again",
    ),
    "13 a slow page of devices": (
        PLATFORM + "test_complaints.py::test_a_page_of_devices_is_read_from_the_index_and_never_sorted",
    ),
    "14 a roll back because a report failed": (
        DEVICE + "test_complaints.py::test_14_a_report_that_fails_after_the_confirmation_changes_no_slot",
    ),
    "15 a long download is thrown away": (
        DEVICE + "test_download.py::test_a_cut_costs_the_part_that_was_cut_and_no_other",
        DEVICE + "test_download.py::test_a_download_goes_on_after_a_restart_with_what_was_proved",
    ),
    "16 an old signed bundle installs, or a floor forbids the emergency roll back": (
        PLATFORM + "test_complaints.py::test_an_older_release_may_come_back_but_an_older_security_epoch_never",
        DEVICE + "test_complaints.py::test_16_an_older_release_may_come_back_and_an_older_epoch_may_not",
    ),
    "17 no reason for a roll back": (
        PLATFORM + "test_complaints.py::test_why_a_device_fell_back_is_shown_to_operators",
        DEVICE + "test_complaints.py::test_17_the_cause_of_a_roll_back_is_kept_on_the_device_and_shown",
    ),
    "18 failed checks do nothing while a gate waits": (
        PLATFORM + "test_complaints.py::test_harm_ends_a_rollout_in_every_state_that_has_devices_on_it",
        PLATFORM + "test_complaints.py::test_an_action_between_two_ticks_is_neither_lost_nor_done_twice",
    ),
    "19 missing data passes, one error near no traffic aborts": (
        PLATFORM + "test_verdict.py::test_missing_data_is_never_a_pass",
        PLATFORM + "test_verdict.py::test_one_failed_device_condemns_nothing",
    ),
    "20 offline devices and expired metadata": (
        DEVICE + "test_complaints.py::test_20_an_offline_device_with_expired_papers_keeps_running_what_it_has",
        PLATFORM + "test_tuf_repository.py::test_a_frozen_repository_expires_and_the_refresh_keeps_a_living_one_valid",
    ),
    "21 buckets differ between server and device": (
        "tests/contracts/test_targeting.py::test_published_vectors_hold_for_rules_buckets_and_slices",
        PLATFORM + "test_targeting.py::test_the_database_means_whom_the_device_means",
        PLATFORM + "test_complaints.py::test_devices_of_a_new_rollout_are_drawn_anew",
    ),
    "22 one hard-coded tenant, one action id for all": (
        PLATFORM + "test_ddi.py::test_what_is_not_there_is_404_and_what_does_not_parse_422",
        PLATFORM + "test_ddi.py::test_feedback_on_an_action_that_ended_is_gone",
    ),
}
BAD_INPUT: dict[str, tuple[str, ...]] = {
    "clock jumps": (PLATFORM + "test_deadlines.py::test_a_clock_that_jumps_neither_promotes_nor_condemns",),
    "expired metadata while offline": (
        DEVICE + "test_complaints.py::test_20_an_offline_device_with_expired_papers_keeps_running_what_it_has",
    ),
    "duplicate feedback": (PLATFORM + "test_feedback.py::test_a_batch_that_names_a_report_twice_counts_it_once",),
    "feedback out of order": (
        PLATFORM + "test_feedback.py::test_a_late_report_does_not_overwrite_what_is_newer",
        PLATFORM + "test_feedback.py::test_a_failure_is_never_forgotten",
    ),
    "a device that lies about its version": (
        PLATFORM + "test_deadlines.py::test_a_device_that_lies_about_its_bundle_helps_no_release",
    ),
    "two operators at once": (
        PLATFORM + "test_deadlines.py::test_of_two_operators_who_saw_the_same_the_second_has_to_look_again",
        PLATFORM + "test_rollout_actions.py::test_two_starts_for_the_same_devices_at_once_leave_one_running",
        PLATFORM + "test_approval.py::test_of_two_who_approve_what_they_saw_one_wins",
    ),
    "a rule that matches nobody": (
        PLATFORM + "test_targeting.py::test_a_start_that_means_nothing_or_nobody_is_refused_with_the_remedy",
    ),
    "a bundle for another NPU": (
        PLATFORM + "test_rollout_actions.py::test_a_bundle_for_nobody_is_refused_with_the_reason",
    ),
    "any message of any API": (
        "tests/api/test_schemathesis.py::test_no_operation_fails_or_breaks_its_schema",
        "tests/api/test_coverage.py::test_every_operation_that_is_served_is_fuzzed",
    ),
    "a caller who may not, or whose things these are not": (
        "tests/api/test_callers.py::test_no_caller_gets_more_than_the_scope_of_the_route_allows",
        "tests/api/test_callers.py::test_a_device_reaches_nothing_that_is_another_devices",
    ),
    "a key of the state document that ended": (
        PLATFORM + "test_state_keys.py::test_a_replay_under_the_old_key_after_its_end_is_refused",
        PLATFORM + "test_state_keys.py::test_an_older_list_of_keys_is_refused_also_after_a_restart",
        PLATFORM + "test_state_keys.py::test_a_device_that_was_offline_during_the_whole_rotation_comes_back",
    ),
    "a device key that was given up": (
        PLATFORM + "test_device_keys.py::test_a_key_that_was_given_up_or_is_anothers_is_never_taken_again",
    ),
    "a token that is revoked while the cache is down": (
        "tests/kit/test_revocations.py::test_without_a_worker_the_bound_is_memory_and_the_lateness_of_a_sweep",
    ),
}
