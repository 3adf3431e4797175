package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gotrain/configs"
)

// mpiJob is what docs/clusters/mpijob.yaml uses of the MPI operator's kubeflow.org/v2beta1.
type mpiJob struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name string `yaml:"name"`
	} `yaml:"metadata"`
	Spec struct {
		SlotsPerWorker         int    `yaml:"slotsPerWorker"`
		MPIImplementation      string `yaml:"mpiImplementation"`
		LauncherCreationPolicy string `yaml:"launcherCreationPolicy"`
		RunPolicy              struct {
			CleanPodPolicy string `yaml:"cleanPodPolicy"`
			BackoffLimit   int    `yaml:"backoffLimit"`
		} `yaml:"runPolicy"`
		MPIReplicaSpecs struct {
			Launcher replicas `yaml:"Launcher"`
			Worker   replicas `yaml:"Worker"`
		} `yaml:"mpiReplicaSpecs"`
	} `yaml:"spec"`
}

type replicas struct {
	Replicas      int    `yaml:"replicas"`
	RestartPolicy string `yaml:"restartPolicy"`
	Template      struct {
		Spec struct {
			Containers []container `yaml:"containers"`
			Volumes    []struct {
				Name                  string `yaml:"name"`
				PersistentVolumeClaim struct {
					ClaimName string `yaml:"claimName"`
				} `yaml:"persistentVolumeClaim"`
			} `yaml:"volumes"`
		} `yaml:"spec"`
	} `yaml:"template"`
}

type container struct {
	Name      string   `yaml:"name"`
	Image     string   `yaml:"image"`
	Command   []string `yaml:"command"`
	Args      []string `yaml:"args"`
	Resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	VolumeMounts []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

func TestTheMPIJobForKubernetesIsWhole(t *testing.T) {
	var job mpiJob
	d := yaml.NewDecoder(strings.NewReader(read(t, "../../docs/clusters/mpijob.yaml")))
	d.KnownFields(true)
	if err := d.Decode(&job); err != nil {
		t.Fatal(err)
	}
	s := job.Spec
	if job.APIVersion != "kubeflow.org/v2beta1" || job.Kind != "MPIJob" || job.Metadata.Name == "" {
		t.Errorf("%s %s %q", job.APIVersion, job.Kind, job.Metadata.Name)
	}
	if !slices.Contains([]string{"OpenMPI", "Intel", "MPICH"}, s.MPIImplementation) ||
		!slices.Contains([]string{"AtStartup", "WaitForWorkersReady"}, s.LauncherCreationPolicy) ||
		!slices.Contains([]string{"None", "Running", "All"}, s.RunPolicy.CleanPodPolicy) ||
		!slices.Contains([]string{"Never", "OnFailure"}, s.MPIReplicaSpecs.Launcher.RestartPolicy) {
		t.Errorf("a value that the operator does not know: %+v", s)
	}
	launcher, worker := s.MPIReplicaSpecs.Launcher, s.MPIReplicaSpecs.Worker
	if launcher.Replicas != 1 || len(launcher.Template.Spec.Containers) != 1 || len(worker.Template.Spec.Containers) != 1 {
		t.Fatalf("want one launcher, and one container in each pod: %+v", s.MPIReplicaSpecs)
	}
	l, w := launcher.Template.Spec.Containers[0], worker.Template.Spec.Containers[0]
	if l.Image == "" || l.Image != w.Image {
		t.Errorf("the launcher runs %q, and workers %q", l.Image, w.Image)
	}
	n := slices.Index(l.Args, "-n")
	program := slices.Index(l.Args, "gotrain")
	if n < 0 || program < 0 || l.Args[n+1] != strconv.Itoa(worker.Replicas*s.SlotsPerWorker) {
		t.Fatalf("%v does not start a process in each of %d slots", l.Args, worker.Replicas*s.SlotsPerWorker)
	}
	cfg, err := configs.Load(l.Args[program+2], l.Args[program+3:])
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Distributed.Workers != worker.Replicas*s.SlotsPerWorker || strconv.Itoa(cfg.Threads) != w.Resources.Limits["cpu"] {
		t.Errorf("%d workers with %d threads in %d pods with %s cores", cfg.Distributed.Workers, cfg.Threads, worker.Replicas, w.Resources.Limits["cpu"])
	}
	volumes := worker.Template.Spec.Volumes
	if len(volumes) != 1 || len(w.VolumeMounts) != 1 || volumes[0].Name != w.VolumeMounts[0].Name || volumes[0].PersistentVolumeClaim.ClaimName == "" {
		t.Fatalf("volumes %+v, mounted %+v", volumes, w.VolumeMounts)
	}
	for _, path := range []string{cfg.Reader.Path, cfg.OutputDir} {
		if !strings.HasPrefix(path, w.VolumeMounts[0].MountPath+"/") {
			t.Errorf("%s does not lie in the volume at %s", path, w.VolumeMounts[0].MountPath)
		}
	}
}

func TestTheSlurmScriptIsWhole(t *testing.T) {
	const path = "../../docs/clusters/gotrain.sbatch"
	if out, err := exec.Command("bash", "-n", path).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	text := read(t, path)
	if !strings.HasPrefix(text, "#!/bin/bash\n") {
		t.Error("does not begin with #!")
	}
	// sbatch reads options up to the first command, each alone on its line.
	options, command := map[string]string{}, false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		option, is := strings.CutPrefix(line, "#SBATCH ")
		switch {
		case is && command:
			t.Errorf("behind a command, sbatch does not read %s", line)
		case is:
			name, value, _ := strings.Cut(option, "=")
			options[name] = value
			if !strings.HasPrefix(name, "--") || strings.ContainsAny(option, " \t") {
				t.Errorf("%s: want one option --name or --name=value", line)
			}
		case line != "" && !strings.HasPrefix(line, "#"):
			command = true
		}
	}
	for _, name := range []string{"--nodes", "--ntasks-per-node", "--cpus-per-task", "--time"} {
		if options[name] == "" {
			t.Errorf("no option %s", name)
		}
	}
	if options["--signal"] != "USR1@60" {
		t.Errorf("--signal=%s: the workers stop at USR1 alone", options["--signal"])
	}
}

// TestTheSlurmScriptGoesBackIntoTheQueue runs it with stand-ins for Slurm's commands.
func TestTheSlurmScriptGoesBackIntoTheQueue(t *testing.T) {
	for _, c := range []struct{ status, says string }{
		{"0", "srun --mpi=pmix --kill-on-bad-exit=1 gotrain -config my.yaml distributed.workers=4 threads=16\n"},
		{"1", "srun --mpi=pmix --kill-on-bad-exit=1 gotrain -config my.yaml distributed.workers=4 threads=16\n"},
		{"130", "srun --mpi=pmix --kill-on-bad-exit=1 gotrain -config my.yaml distributed.workers=4 threads=16\nscontrol requeue 77\n"},
	} {
		dir := t.TempDir()
		for name, status := range map[string]string{"srun": c.status, "scontrol": "0"} {
			if err := os.WriteFile(dir+"/"+name, []byte("#!/bin/sh\necho "+name+" \"$@\"\nexit "+status+"\n"), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		cmd := exec.Command("bash", "../../docs/clusters/gotrain.sbatch", "-config", "my.yaml")
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SLURM_NTASKS=4", "SLURM_CPUS_PER_TASK=16", "SLURM_JOB_ID=77")
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.Run()
		if out.String() != c.says || strconv.Itoa(cmd.ProcessState.ExitCode()) != c.status {
			t.Errorf("srun ends with %s: exit status %d, says\n%swant\n%s", c.status, cmd.ProcessState.ExitCode(), out.String(), c.says)
		}
	}
}
