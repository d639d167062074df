import { mount } from 'svelte';
import './tokens.css';
import './app.css';
import App from './App.svelte';
import { tag } from './lib/language';

document.documentElement.lang = tag();

mount(App, { target: document.getElementById('app')! });
