"""Examples at the end of each verb's ``--help``."""

EXAMPLES = {
    "data": """\
Examples:
  hpcpod data synth bars.parquet --set days=250 --set alpha=0   a synthetic market, as a file
  hpcpod data info bars.parquet                  its stocks, sessions, licence, survivorship
  hpcpod data check bars.csv --set timezone=America/New_York    all that is odd, with its row
  hpcpod data features skfolio:sp500 rsi_30 mine:ratio          no feature may look ahead

SOURCE is a file (.parquet, .csv), synthetic, skfolio:sp500 or universal-portfolios:nyse_o; --set
gives it arguments. Nothing is repaired: a file with an error is refused, with the row.
""",
    "ct": """\
Examples:
  hpcpod ct trading.yaml            a first cycle, or what is due now, or what was interrupted
  hpcpod ct mine                    the same of a finished run, or of a registry, by its name
  (crontab -l; hpcpod ct mine --crontab --every 1d) | crontab -    alone, by cron
  hpcpod ct mine --submit --every 1d                   alone, by jobs that submit the next one
  hpcpod ct status mine             what is deployed, how it was judged, how the data drift
  hpcpod ct rollback mine           deploy what was deployed before; or a version: v0002
  hpcpod ct repeat mine v0002       train a version again, and see that it is the same

What is deployed is runs/NAME.ct/current/policy.h5, a link that is changed in one step.
""",
    "launch": """\
Examples:
  hpcpod launch configs/cartpole.yaml
  hpcpod launch --env LunarLander-v3 --minutes 20      chooses all else, and says why
  hpcpod launch configs/cartpole.yaml --cluster slurm --set cluster.partition=gpu --dry-run
""",
    "sweep": """\
Examples:
  hpcpod launch configs/sweep_ablation.yaml --dry-run    the cells of a sweep, before it is made
  hpcpod sweep status                                    every sweep in a line
  hpcpod sweep results ablation --csv > ablation.csv     a row for each run, to analyse elsewhere
  hpcpod sweep stop ablation && hpcpod sweep resume ablation
stop has the runs at work checkpoint and leave, and begins no other; resume goes on, here until the
last has ended. Each is an ordinary run, which every verb takes: hpcpod status ablation/cells/001-1.
""",
    "init": """\
Examples:
  hpcpod init                                          asks for the task, the time and the place
  hpcpod init ant.yaml --env Ant-v5 --minutes 120 --slots 8 --cluster slurm
  hpcpod init --env my_pkg.mod:MyEnv && hpcpod launch myenv.yaml
It chooses as `hpcpod launch --env` does, by the environment's spaces and its measured speed, and
writes each key with its meaning and the reason of its value.
""",
    "render": """\
Example:
  hpcpod render configs/cartpole.yaml --cluster slurm    then sbatch what it prints
""",
    "validate": """\
Examples:
  hpcpod validate configs/cartpole.yaml --set stop.minutes=30
  hpcpod validate --env Pendulum-v1 --minutes 10 > mine.yaml    the chosen configuration, to edit
  hpcpod validate --fields | less
  hpcpod validate --schema > hpcpod.schema.json    for editors: docs/configuration.md
""",
    "train": """\
Example:
  hpcpod train configs/cartpole.yaml --env-steps 50000 --save-to cartpole.h5
""",
    "status": """\
Examples:
  hpcpod status                   every run in a line
  hpcpod status cartpole          slots, requeues, hours used, when it ends
  hpcpod status cartpole --json | jq .forecast
""",
    "list": """\
Examples:
  hpcpod list --sort score --env 'Ant-*'
  hpcpod list --state paused,interrupted      what `hpcpod resume` would go on with
  hpcpod list --json | jq -r '.[] | [.run, .best.mean] | @tsv'
Scores are compared as they are, of whatever environment. The interval is as in `hpcpod
leaderboard`; hours are those that slots had, of GPUs where they have any.
""",
    "watch": """\
In a terminal it has panes: leaderboard, slots, events, and one pod with its lineage, its log and
why it waits. Keys 1 to 4 and tab switch them, ? lists the others; q or Ctrl-C ends the watching,
not the run. It reads files and asks the scheduler nothing. Without a terminal it prints lines, and
asks once a minute whether the run still has a job.
Exit codes: 0 finished, or left with q; 75 paused or interrupted.
Examples:
  hpcpod watch cartpole
  hpcpod watch cartpole | tee cartpole.txt
""",
    "leaderboard": """\
Example:
  hpcpod leaderboard cartpole --json | jq '.entries[0].pod'
""",
    "snapshots": """\
Example:
  hpcpod launch configs/cartpole.yaml --set snapshots.seconds=10
  hpcpod snapshots cartpole --json | jq '.[] | [.seconds, .env_steps, .mean, .sd]'
""",
    "results": """\
Examples:
  hpcpod results cartpole                     the tables, and how many rows each has
  hpcpod results cartpole --table pods | column -s, -t
  hpcpod results cartpole --csv cartpole/     a file for each table
  hpcpod results cartpole --optuna cartpole.log && optuna-dashboard cartpole.log
""",
    "evaluate": """\
Every policy plays the same seeds, which no run draws, in gymnasium's own environment.
docs/evaluate.md says what the numbers mean.
Examples:
  hpcpod evaluate cartpole other-run best.h5          whose best policy is better, and how surely
  hpcpod evaluate cartpole --top 8 --episodes 256
  hpcpod evaluate ant --kwargs ctrl_cost_weight=0.1,1.0 --env Ant-v5 --env Ant-v4
  hpcpod evaluate cartpole --wrapper '{gymnasium.wrappers:DelayObservation: {delay: 1}}'
  hpcpod evaluate ant --top 8 --slurm --set cluster.partition=cpu --csv ant.csv
""",
    "report": """\
The file needs no network and no other file: mail it, or open it with any browser. docs/report.md
says how to read each figure.
Examples:
  hpcpod report cartpole
  hpcpod report cartpole -o cartpole.html
  hpcpod report a-1 a-2 a-3 b-1 b-2 b-3 -o side-by-side.html    by configuration, over seeds
""",
    "why": """\
Examples:
  hpcpod why cartpole             why it has fewer slots than it wants, or does not go on
  hpcpod why cartpole p0003       what that pod does or waits for, and what you can do
  hpcpod why p0003                where runs/ has one run
""",
    "advise": """\
It compares what a run has asked for (memory, cores, time) with what its slots have used, and tells
how much of their time went into waiting and scoring; each with the line to change in the
configuration of the next run. It reads the run's files; the scheduler is asked nothing. Of slots
that worked less than ten minutes together it says nothing: imports and warm-ups are most of that.
Examples:
  hpcpod advise cartpole
  hpcpod advise cartpole --json | jq -r '.[].yaml'
""",
    "lineage": """\
Below each pod stand the copies of it. A star marks the pods that lead to the winner, or to the
leader so far.
Examples:
  hpcpod lineage cartpole                        every pod, in a tree
  hpcpod lineage cartpole p0005                  its ancestors, and what was trained when
  hpcpod lineage cartpole --dot | dot -Tsvg > births.svg
  hpcpod lineage cartpole p0005 --json           its schedule, as run.schedule("p0005")
""",
    "replay": """\
It trains what led to a pod's best policy, from a fresh network: the same hyperparameters for the
same environment steps, and the same copies' moves. With the run's own seed, on a CPU and with the
same versions, each round ends in the run's own bits, and it says whether it did. With other seeds
it tells what the schedule is worth without the luck of a tournament's choice: docs/lineage.md. One
that was interrupted goes on when it is called again.
Examples:
  hpcpod replay cartpole                         the winner's, by its own seed
  for seed in 1 2 3 4 5; do hpcpod replay cartpole --seed $seed; done
  hpcpod replay cartpole p0005 --env-steps 200000 --out longer
""",
    "play": """\
Episodes are played by gymnasium's own environment, without exploring. Videos and sheets need
pip install 'hpcpod[play]', and no screen: docs/play.md.
Examples:
  hpcpod play cartpole                           three episodes of the winner
  hpcpod play cartpole --pod p0003 --seed 7 --episodes 1 --record video.mp4
  hpcpod play policy/ --sheet frames.png         of a folder that hpcpod export has made
""",
    "logs": """\
Examples:
  hpcpod logs cartpole            the end of every log
  hpcpod logs cartpole coordinator -n 50
  hpcpod logs cartpole p0003 -f   what is said of that pod, in order of time
  hpcpod logs ant p0001 --rank 2  of a pod of several ranks, what one of them says
""",
    "scale": """\
Examples:
  hpcpod scale cartpole           how many slots there should be at once, and who says so
  hpcpod scale cartpole 8         from now on; with fewer than there are pods they take turns
  hpcpod scale cartpole auto      as the configuration says, again
""",
    "pause": """\
Example:
  hpcpod pause cartpole           slots checkpoint and leave now; `hpcpod stop --drain` lets
                                  them finish their round first
  hpcpod resume cartpole          goes on where they were
""",
    "stop": """\
Examples:
  hpcpod stop cartpole            for good: the slots at work score the leaders on fresh seeds
                                  and leave; best.h5 is the best policy
  hpcpod stop cartpole --now      at once, without these scores
  hpcpod stop cartpole --drain    for now: `hpcpod resume cartpole` goes on
""",
    "resume": """\
Example:
  hpcpod resume cartpole
""",
    "extend": """\
Examples:
  hpcpod extend cartpole --set stop.env_steps=2000000
  hpcpod extend cartpole --set stop.minutes=120 --set stop.rounds=null    null: no such limit
Of a run that has finished. What it decided stays, and so does best.h5 until the new end.
""",
    "tick": """\
Example:
  */5 * * * * hpcpod tick /scratch/me/runs/cartpole    in a scrontab, instead of a coordinator
""",
    "export": """\
A folder plays where neither hpcpod nor torch is: policy.onnx, policy.h5 with its NumPy reader
policy.py, and a card. It is compared with the agent before it gets its name: docs/deploy.md.
Examples:
  hpcpod export cartpole cartpole.h5
  python -c 'import hpcpod; policy = hpcpod.load_policy("cartpole.h5")'
  hpcpod export cartpole -o policy/ --license apache-2.0
""",
    "sync": """\
It sends what the pods' curves have and was not sent by it before, so it may be called again while
the run goes on. Compute nodes without a network need nothing else: docs/metrics.md.
Examples:
  hpcpod sync cartpole --to wandb
  hpcpod sync cartpole --to trackio --to my_logger:CsvLogger
""",
    "envs": """\
What is listed was found without importing a simulator, so a login node can tell. `hpcpod envs
check ENV` makes one and runs it:
  hpcpod envs check CartPole-v1
  hpcpod envs check Ant-v5 --backend mujoco --set resources.cpus_per_pod=4
  hpcpod envs check my_pkg.mod:MyEnv --num-envs 64 --processes 4 --set env.kwargs.level=2
  hpcpod envs check configs/cartpole.yaml
""",
    "doctor": """\
It tries the filesystem on which runs lie, asks Slurm what its limits are and how it preempts, and
submits one small job of two tasks, with what a slot would ask for, that tries locks and names
between two nodes and looks at what a node has. The job is cancelled, and what was written is
removed, whatever happens. docs/doctor.md has all that it looks at.
Exit codes: 0 nothing hinders a run, 1 something does.
Examples:
  hpcpod doctor my.yaml --set cluster.partition=gpu
  hpcpod doctor --here --json
""",
    "completion": """\
Where the shell finds it, for each new one:
  hpcpod completion bash > ~/.local/share/bash-completion/completions/hpcpod
  hpcpod completion zsh > ~/.zfunc/_hpcpod       with, in ~/.zshrc before compinit:
                                                 fpath+=(~/.zfunc)
  hpcpod completion fish > ~/.config/fish/completions/hpcpod.fish
For this shell alone: eval "$(hpcpod completion bash)", or hpcpod completion fish | source
""",
}
