/* A program of a run in C: a number that learns to be 1. Copy this file, and change it.
   cc -o plain plain.c */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[4096], part[4104];

static const char *given(const char *name) {
    const char *value = getenv(name);
    if (!value) {
        fprintf(stderr, "%s is not set: start this from a run of hpcpod\n", name);
        exit(2);
    }
    return value;
}

static FILE *open_or_end(const char *name, const char *mode) {
    FILE *file = fopen(name, mode);
    if (!file) {
        perror(name);
        exit(1);
    }
    return file;
}

/* Close a file that was written under the name `part`, and give it its own: it appears whole. */
static void publish(FILE *file) {
    if (fclose(file) || rename(part, path)) {
        perror(path);
        exit(1);
    }
}

static FILE *begin(void) {
    snprintf(part, sizeof part, "%s.part", path);
    return open_or_end(part, "w");
}

static void save(double x, long steps) {
    snprintf(path, sizeof path, "%s/x", given("HPCPOD_SAVE_TO"));
    FILE *file = begin();
    fprintf(file, "%.17g\n", x);
    publish(file);
    if (steps % 50 == 0) { /* an interrupted round goes on from here */
        snprintf(path, sizeof path, "%s/saved-%ld.json", given("HPCPOD_SESSION"), steps);
        file = begin();
        fprintf(file, "{\"format\": 1, \"steps\": %ld}\n", steps);
        publish(file);
        while (access(path, F_OK) == 0) usleep(2000);
    }
}

int main(void) {
    double x = 0;
    long steps = 0;
    const char *checkpoint = getenv("HPCPOD_CHECKPOINT");
    if (checkpoint) {
        snprintf(path, sizeof path, "%s/x", checkpoint);
        FILE *file = open_or_end(path, "r");
        if (fscanf(file, "%lf", &x) != 1) return 1;
        fclose(file);
    }
    if (strcmp(given("HPCPOD_MODE"), "train") == 0) {
        double rate = atof(given("HPCPOD_P_LEARNING_RATE"));
        long budget = atol(given("HPCPOD_STEPS"));
        FILE *progress = open_or_end(given("HPCPOD_PROGRESS_TO"), "a");
        while (steps < budget && access(given("HPCPOD_STOP_FILE"), F_OK) != 0) {
            x += rate * (1 - x);
            steps++;
            fprintf(progress, "{\"steps\": %ld, \"x\": %.17g}\n", steps, x);
            fflush(progress);
            save(x, steps);
        }
        fclose(progress);
    }
    snprintf(path, sizeof path, "%s", given("HPCPOD_REPORT_TO"));
    FILE *file = begin();
    fprintf(file, "{\"format\": 1, \"steps\": %ld, \"returns\": [", steps);
    char *seeds = strdup(given("HPCPOD_PANEL_SEEDS"));
    const char *comma = "";
    for (char *word = strtok(seeds, " "); word; word = strtok(NULL, " "), comma = ", ") {
        srand((unsigned)strtoul(word, NULL, 10));
        fprintf(file, "%s%.17g", comma, x + 0.1 * ((double)rand() / RAND_MAX - 0.5));
    }
    fprintf(file, "]}\n");
    publish(file);
    return 0;
}
