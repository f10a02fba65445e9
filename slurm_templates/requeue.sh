# Exit code 75 asks to come back; 140 and 143 are USR2 and TERM before Python could listen.
# Slurm before 24.05 calls a polite exit during preemption FAILED, so coming back is asked
# for here, and by the element's full name: SLURM_JOB_ID may stand for the whole array.
if ((code == 75 || code == 140 || code == 143)); then
    element=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}
    element=${element:-$SLURM_JOB_ID}
    if ((${SLURM_RESTART_COUNT:-0} >= @{max_requeues})); then
        echo "hpcpod: $element was requeued @{max_requeues} times already: given up" >&2
        exit 1
    fi
    for pause in 1 2 4 8 0; do
        state=$(squeue -h -j "$element" -o '%T:%r' 2>/dev/null)
        case $state in
            COMPLETING:TimeLimit) ;; # its checkpoint was late: it still comes back
            # Preempted, and Slurm requeues it; or cancelled, and Slurm would revive it.
            COMPLETING:* | CANCELLED:* | PENDING:*)
                echo "hpcpod: $element is $state: it is not requeued from here" >&2
                break ;;
        esac
        answer=$(scontrol requeue "$element" 2>&1) && exit 0
        echo "hpcpod: scontrol requeue $element: $answer" >&2
        sleep "$pause"
    done
fi
exit "$code"
