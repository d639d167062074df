// Command clients is the clients of Go behind the contract of tests/clients/contract.py: the first argument says which.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

const timeout = 30 * time.Second

var padding = strings.Repeat("x", 100)

type tlsFiles struct{ Ca, Certificate, Key string }

type login struct{ Mechanism, User, Password, Token string }

type connection struct {
	Bootstrap string
	Tls       *tlsFiles
	Sasl      *login
}

type step struct {
	Do, Topic, Codec, Prefix, Group, End, Isolation string
	Type, Name, Principal, Operation                string
	TransactionalId                                 string `json:"transactional_id"`
	Partitions, Count                               int
	Configs                                         map[string]string
	Names                                           []string
}

type record [5]any

// client does one kind of step each; a step that it has not got is one that the client lacks.
type client map[string]func(context.Context, step) (any, error)

// lacks is the error of what a client has not got.
type lacks string

func (what lacks) Error() string { return string(what) }

// refused is an error by Kafka's name.
type refused struct{ name, text string }

func (why refused) Error() string { return why.name + ": " + why.text }

func main() {
	var script struct {
		Connection connection
		Steps      []step
	}
	if err := json.NewDecoder(os.Stdin).Decode(&script); err != nil {
		panic(err)
	}
	made := map[string]func(connection) client{"franz-go": franz, "sarama": ibm, "kafka-go": segment}[os.Args[1]](script.Connection)
	for _, each := range script.Steps {
		line, err := json.Marshal(told(made, each))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
}

func told(made client, asked step) map[string]any {
	do, has := made[asked.Do]
	if !has {
		return map[string]any{"lacks": asked.Do}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	result, err := do(ctx, asked)
	var lack lacks
	var why refused
	switch {
	case err == nil:
		return map[string]any{"result": result}
	case errors.As(err, &lack):
		return map[string]any{"lacks": string(lack)}
	case errors.As(err, &why):
		return map[string]any{"error": why.name, "text": why.text}
	}
	return map[string]any{"error": fmt.Sprintf("%T", err), "text": err.Error()}
}

// encrypted is nil where a connection is in the clear.
func (where connection) encrypted() *tls.Config {
	if where.Tls == nil {
		return nil
	}
	pem, err := os.ReadFile(where.Tls.Ca)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	made := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if where.Tls.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(where.Tls.Certificate, where.Tls.Key)
		if err != nil {
			panic(err)
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made
}

func (asked step) value(number int) string {
	return fmt.Sprintf("%s-%d-%s", asked.Prefix, number, padding)
}

func key(number int) string { return fmt.Sprintf("k%d", number) }

func counted(records []record) map[string]any { return map[string]any{"records": records} }
